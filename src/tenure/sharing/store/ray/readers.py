"""The readers on a Ray cluster: whose bytes remain after a delete, and which process can restore lost bytes."""

from __future__ import annotations

import asyncio
import contextlib

from tenure.sharing.store.base import Doer
from tenure.sharing.store.ray.records import Hold, Process

_REPLY = 1.0  # seconds that a process has to say what it holds


class Readers:
    """The bytes of the store that each process uses without a copy.

    A read is noted at once, its end only when it matters: every process that reads has one call waiting here, and the
    answer to it is the question.
    """

    def __init__(self) -> None:
        self._held: dict[Process, dict[tuple[str, int], Doer]] = {}
        self._wanted: dict[Process, set[tuple[str, int]]] = {}
        self._waiting: dict[Process, asyncio.Event] = {}
        self._told = asyncio.Event()

    def add(self, process: Process, hold: Hold) -> None:
        """Note that a process reads something."""
        name, version, by = hold
        self._held.setdefault(process, {})[name, version] = by

    def tell(self, process: Process, holds: list[Hold]) -> None:
        """Record what a process reads."""
        self._held[process] = {(name, version): by for name, version, by in holds}
        if not holds:
            del self._held[process]

    def forget(self, processes: set[Process]) -> None:
        """These have ended."""
        for process in processes:
            for table in (self._held, self._wanted, self._waiting):
                table.pop(process, None)

    def of(self, name: str, version: int) -> dict[Process, Doer]:
        """Return the known readers of an entry."""
        return {process: held[name, version] for process, held in self._held.items() if (name, version) in held}

    async def listen(self, process: Process, holds: list[Hold]) -> list[tuple[str, int]]:
        """Wait until a process is asked what it holds, and say what of it is wanted back."""
        self.tell(process, holds)
        self._told.set()
        self._told = asyncio.Event()
        if not holds:
            return []
        mine = self._waiting[process] = asyncio.Event()
        if process not in self._wanted:
            await mine.wait()
        if self._waiting.get(process) is mine:
            del self._waiting[process]
        return list(self._wanted.pop(process, ()))

    async def ask(self, name: str, version: int) -> dict[Process, Doer]:
        """Return the readers of an entry, after asking earlier ones whether they still read it."""
        asked = {process: self._waiting[process] for process in self.of(name, version) if process in self._waiting}
        for waiting in asked.values():
            waiting.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REPLY):
                while any(
                    self._waiting.get(process, old) is old for process, old in asked.items() if self._reads(process)
                ):
                    await self._told.wait()
        return self.of(name, version)

    def _reads(self, process: Process) -> bool:
        return process in self._held

    def want(self, name: str, version: int) -> bool:
        """Ask those who read this to give it back; whether there is anybody."""
        readers = self.of(name, version)
        for process in readers:
            self._wanted.setdefault(process, set()).add((name, version))
            if process in self._waiting:
                self._waiting[process].set()
        return bool(readers)
