"""Who reads what on a Ray cluster: to say whose bytes remain after a delete, and who can give back what was lost."""

from __future__ import annotations

import asyncio
import contextlib

from tenure.sharing.store.base import Doer
from tenure.sharing.store.ray.records import Hold, Process

_LISTEN = 10.0  # seconds after which a listener is answered anyway, so that none waits for an index that died


class Readers:
    """What each process holds of the store's bytes without a copy, as far as it has told."""

    def __init__(self) -> None:
        self._held: dict[Process, dict[tuple[str, int], Doer]] = {}
        self._wanted: dict[Process, set[tuple[str, int]]] = {}
        self._listeners: dict[Process, asyncio.Event] = {}

    def add(self, process: Process, hold: Hold) -> None:
        """A process reads something."""
        name, version, by = hold
        self._held.setdefault(process, {})[name, version] = by

    def tell(self, process: Process, holds: list[Hold]) -> None:
        """All that a process reads."""
        self._held[process] = {(name, version): by for name, version, by in holds}
        if not holds:
            del self._held[process]

    def forget(self, processes: set[Process]) -> None:
        """These have ended."""
        for process in processes:
            for table in (self._held, self._wanted, self._listeners):
                table.pop(process, None)

    def of(self, name: str, version: int) -> dict[Process, Doer]:
        """Who reads this."""
        return {process: held[name, version] for process, held in self._held.items() if (name, version) in held}

    async def listen(self, process: Process, holds: list[Hold]) -> list[tuple[str, int]]:
        """Wait until something is wanted back from this process; a later call of its takes the place of this one."""
        before = self._listeners.pop(process, None)
        if before is not None:
            before.set()
        self.tell(process, holds)
        if not holds:
            return []
        mine = self._listeners[process] = asyncio.Event()
        if process not in self._wanted:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(mine.wait(), _LISTEN)
        return list(self._wanted.pop(process, ())) if self._listeners.get(process) is mine else []

    def want(self, name: str, version: int) -> bool:
        """Ask those who read this to give it back; whether there is anybody."""
        readers = self.of(name, version)
        for process in readers:
            self._wanted.setdefault(process, set()).add((name, version))
            if process in self._listeners:
                self._listeners[process].set()
        return bool(readers)
