"""The table that recorders written in Python fill: one tuple an event, made into columns by the writer's thread."""

from __future__ import annotations

import itertools
import threading
import time as clock
from collections.abc import Callable
from typing import Any

from tenure import stacks
from tenure.trace.events import WORDS, Dictionary, numbers

# Buffers that native recorders number begin at 1, these in the upper half.
_FIRST = 1 << 31


class Life:
    """What happened to one buffer since its birth."""

    __slots__ = ("kind", "last_op", "last_stack", "last_use", "told", "uses")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.uses = 0
        self.told = 0
        self.last_use = 0
        self.last_op = ""
        self.last_stack: object = 0


class Rows:
    """The events of one process since the last `take`; a `Sink`.

    `position` gives the step and the scope that an event belongs to.
    """

    def __init__(self, position: Callable[[], tuple[int, str | None]], stepped: Callable[[int | None], None]) -> None:
        self._position = position
        self._stepped = stepped
        self._rows: list[tuple[Any, ...]] = []
        self._lives: dict[int, Life] = {}
        self._used: set[int] = set()
        self._ids = itertools.count(_FIRST)
        self._threads: dict[int, str] = {}

    def born(
        self,
        framework: str,
        nbytes: int,
        device: str,
        op: str = "",
        shape: object = None,
        dtype: str = "",
        stack: object = 0,
        kind: str = "",
        time: int = 0,
    ) -> int:
        """A buffer came to be; see `Sink`."""
        buffer = next(self._ids)
        self._lives[buffer] = Life(kind)
        self._add(("birth", time, buffer, framework, device, nbytes, shape, dtype, op, stack, kind))
        return buffer

    def used(self, buffer: int, op: str = "", stack: object = 0, time: int = 0) -> None:
        """An operation took it."""
        life = self._lives.get(buffer)
        if life is not None:
            life.uses += 1
            life.last_use = time or clock.monotonic_ns()
            life.last_op = op
            life.last_stack = stack
            self._used.add(buffer)

    def ended(self, buffer: int, cause: str = "last reference", stack: object = 0, time: int = 0) -> None:
        """Its bytes are gone."""
        life = self._lives.pop(buffer, None)
        if life is not None:
            self._add(("end", time, buffer, life, cause, stack))

    def is_a(self, buffer: int, kind: str) -> None:
        """It was found out to be of this kind."""
        life = self._lives.get(buffer)
        if life is not None and life.kind != kind:
            life.kind = kind
            self._add(("kind", 0, buffer, kind))

    def step(self, number: int | None = None) -> None:
        """A training step is done."""
        self._stepped(number)

    def note(self, event: str, name: str | None = None) -> None:
        """A step or a mark of the user's."""
        self._add((event, 0, name))

    def _add(self, row: tuple[Any, ...]) -> None:
        self._rows.append((row, row[1] or clock.monotonic_ns(), *self._position(), threading.get_ident()))

    def take(self, dictionary: Dictionary, since: Callable[[int], int]) -> tuple[dict[str, Any], int]:
        """The columns of what happened since the last time, and their length; `since` makes times of the clock's."""
        rows, self._rows = self._rows, []
        used, self._used = self._used, set()
        table = _Table(dictionary, since)
        self._threads.update((thread.ident or 0, thread.name) for thread in threading.enumerate())
        for row, time, step, scope, thread in rows:
            table.add(row, time, step, scope, self._threads.get(thread, f"thread {thread}"))
        for buffer in used:
            life = self._lives.get(buffer)
            if life is not None and life.uses > life.told:
                life.told = life.uses
                table.add(("use", 0, buffer, life), life.last_use, None, None, None)
        return table.columns(), len(table.times)


class _Table:
    """Rows on the way to columns."""

    def __init__(self, dictionary: Dictionary, since: Callable[[int], int]) -> None:
        self._dictionary = dictionary
        self._since = since
        self.times: list[int] = []
        self._words: dict[str, list[str | None]] = {name: [] for name in WORDS}
        self._plain: dict[str, list[int | None]] = {
            name: [] for name in ("buffer", "bytes", "step", "uses", "last_use")
        }

    def add(self, row: tuple[Any, ...], time: int, step: int | None, scope: str | None, thread: str | None) -> None:
        """One event."""
        told: dict[str, Any] = {"event": row[0], "step": step, "scope": scope, "thread": thread}
        match row:
            case ("birth", _, buffer, framework, device, nbytes, shape, dtype, op, stack, kind):
                told |= {
                    "buffer": buffer, "framework": framework, "device": device, "bytes": nbytes, "dtype": dtype or None,
                    "shape": None if shape is None else str(list(shape)), "op": op or None, "kind": kind or None,
                    **_place(stack, ""),
                }  # fmt: skip
            case ("end", _, buffer, life, cause, stack):
                told |= {"buffer": buffer, "cause": cause, **self._last(life), **_place(stack, "")}
            case ("use", _, buffer, life):
                told |= {"buffer": buffer, **self._last(life)}
            case ("kind", _, buffer, kind):
                told |= {"buffer": buffer, "kind": kind}
            case (_, _, name):
                told["name"] = name
        self.times.append(self._since(time))
        for columns in (self._words, self._plain):
            for name, values in columns.items():
                values.append(told.get(name))

    def _last(self, life: Life) -> dict[str, Any]:
        if not life.uses:
            return {"uses": 0, "kind": life.kind or None}
        return {
            "uses": life.uses, "last_use": self._since(life.last_use), "last_op": life.last_op or None,
            "kind": life.kind or None, **_place(life.last_stack, "last_"),
        }  # fmt: skip

    def columns(self) -> dict[str, Any]:
        """What `Dictionary.batch` takes."""
        found: dict[str, Any] = {"time": self.times, **self._plain}
        for name, texts in self._words.items():
            found[name] = numbers(self._dictionary[name], texts)
        return found


def _place(stack: Any, prefix: str) -> dict[str, str]:
    told = stack if isinstance(stack, str) else stacks.text(stack) if stack else ""
    return {f"{prefix}stack": told, f"{prefix}site": told.partition("\n")[0]} if told else {}
