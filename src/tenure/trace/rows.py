"""The table that recorders written in Python fill: a row of numbers an event, made into columns by the writer's thread.

What an event costs is paid in the user's program, so words are told once and then go by number; and the rows lie in one
array of integers, which takes a quarter of the memory of tuples.
"""

from __future__ import annotations

import itertools
import threading
import time as clock
from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tenure import stacks
from tenure.trace import marks
from tenure.trace.events import EVENTS, Dictionary

# Buffers that native recorders number begin at 1, these in the upper half.
_FIRST = 1 << 31
_BIRTH, _USE, _END, _KIND = (EVENTS.index(name) for name in ("birth", "use", "end", "kind"))

# A row: `what` numbers the words that come together, `scope`, `stack` and those of the last use go by themselves.
_FIELDS = ("event", "time", "buffer", "bytes", "step", "thread", "scope", "what", "stack", "uses", "last_use", "last_op", "last_stack")  # fmt: skip
_WIDTH = len(_FIELDS)
_WHAT = ("framework", "device", "shape", "dtype", "op", "kind", "cause", "name")
_TROUBLES = 20  # told at most
_NONE = -1  # in columns of numbers; words begin at 1, and 0 is none


class Life:
    """What happened to one buffer since its birth."""

    __slots__ = ("kind", "last_op", "last_stack", "last_step", "last_use", "told", "uses")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.uses = 0
        self.told = 0
        self.last_use = self.last_step = _NONE
        self.last_op = ""
        self.last_stack: Any = 0


class Rows:
    """The events of one process since the last `take`; a `Sink`.

    `position` gives the step and the scope that an event belongs to.
    """

    def __init__(self, position: Callable[[], tuple[int, str | None]], stepped: Callable[[int | None], None]) -> None:
        self._position = position
        self._stepped = stepped
        self._rows = array("q")
        self._lives: dict[int, Life] = {}
        self._used: set[int] = set()
        self._ids = itertools.count(_FIRST)
        self._threads: dict[int, str] = {}
        self._troubles: set[str] = set()
        self._whats, self._stacks, self._scopes, self._ops = (_Words() for _ in range(4))

    def born(
        self,
        framework: str,
        nbytes: int,
        device: str,
        op: str = "",
        shape: Any = None,
        dtype: str = "",
        stack: object = 0,
        kind: str = "",
        time: int = 0,
    ) -> int:
        """A buffer came to be; see `Sink`."""
        buffer = next(self._ids)
        self._lives[buffer] = Life(kind)
        shape = None if shape is None else tuple(shape)
        what = (framework, device, shape, dtype, op, kind, "", "")
        self._add(_BIRTH, time, buffer, nbytes, what, stack)
        return buffer

    def used(self, buffer: int, op: str = "", stack: object = 0, time: int = 0) -> None:
        """An operation took it."""
        life = self._lives.get(buffer)
        if life is not None:
            life.uses += 1
            life.last_use = time or clock.monotonic_ns()
            life.last_step = self._position()[0]
            life.last_op = op
            life.last_stack = stack
            self._used.add(buffer)

    def ended(self, buffer: int, cause: str = "last reference", stack: object = 0, time: int = 0) -> None:
        """Its bytes are gone."""
        life = self._lives.pop(buffer, None)
        if life is not None:
            self._add(_END, time, buffer, _NONE, ("", "", None, "", "", life.kind, cause, ""), stack, life)

    def is_a(self, buffer: int, kind: str) -> None:
        """It was found out to be of this kind."""
        life = self._lives.get(buffer)
        if life is not None and life.kind != kind:
            life.kind = kind
            self._add(_KIND, 0, buffer, _NONE, ("", "", None, "", "", kind, "", ""))

    def step(self, number: int | None = None) -> None:
        """A training step is done."""
        self._stepped(number)

    def trouble(self, text: str) -> None:
        """Something went wrong in a recorder."""
        if text not in self._troubles and len(self._troubles) < _TROUBLES:
            self._troubles.add(text)
            self.note("mark", marks.trouble(text))

    def partly(self, results: tuple[str, ...], why: str) -> None:
        """The trace gives these results only in part; see `Sink`."""
        if why not in self._troubles:
            self._troubles.add(why)
            self.note("mark", marks.partly(results, why))

    def note(self, event: str, name: str | None = None) -> None:
        """A step or a mark of the user's."""
        self._add(EVENTS.index(event), 0, _NONE, _NONE, ("", "", None, "", "", "", "", name or ""))

    def _add(self, event: int, time: int, buffer: int, nbytes: int, what: tuple[Any, ...], stack: Any = 0, life: Life | None = None) -> None:  # fmt: skip
        step, scope = self._position()
        # Made whole before it is added: a row that is cut short would shift all that follow.
        row = array(
            "q",
            (
                event, time or clock.monotonic_ns(), buffer, nbytes, step, threading.get_ident(),
                self._scopes.number(scope), self._whats.number(what), self._stacks.number(stack),
                *((_NONE, _NONE, 0, 0) if life is None else self._last(life)),
            ),
        )  # fmt: skip
        self._rows.extend(row)

    def _last(self, life: Life) -> tuple[int, int, int, int]:
        return life.uses, life.last_use, self._ops.number(life.last_op), self._stacks.number(life.last_stack)

    def take(self, dictionary: Dictionary, since: Callable[[int], int]) -> tuple[dict[str, Any], int]:
        """The columns of what happened since the last time, and their length; `since` makes times of the clock's."""
        # Not swapped for a new one: a thread that has just looked up the old one would add to what is already written.
        rows = self._rows[:]
        del self._rows[: len(rows)]
        used, self._used = self._used, set()
        for buffer in list(used):  # a thread that has just looked it up may still add to it
            life = self._lives.get(buffer)
            if life is not None and life.uses > life.told:
                life.told = life.uses
                what = self._whats.number(("", "", None, "", "", life.kind, "", ""))
                rows.extend((_USE, life.last_use, buffer, _NONE, life.last_step, 0, 0, what, 0, *self._last(life)))
        if not rows:
            return {}, 0
        plain = {name: rows[at::_WIDTH] for at, name in enumerate(_FIELDS)}
        return self._columns(plain, dictionary, since), len(rows) // _WIDTH

    def _columns(self, rows: dict[str, Any], words: Dictionary, since: Callable[[int], int]) -> dict[str, Any]:
        found: dict[str, Any] = {"time": [since(moment) for moment in rows["time"]]}
        found["last_use"] = [None if moment < 0 else since(moment) for moment in rows["last_use"]]
        for name in ("buffer", "bytes", "step", "uses"):
            found[name] = _known(rows[name])
        found["event"] = _looked_up([words["event"].number(name) for name in EVENTS], rows["event"])
        found["thread"] = self._thread_numbers(rows["thread"], words)
        whats = self._whats.told(lambda what: tuple(map(_text, what)))
        for at, name in enumerate(_WHAT):
            numbers = [None if what is None or what[at] is None else words[name].number(what[at]) for what in whats]
            found[name] = _looked_up(numbers, rows["what"])
        found["scope"] = _looked_up(_numbered(self._scopes.told(str), words["scope"]), rows["scope"])
        found["last_op"] = _looked_up(_numbered(self._ops.told(str), words["op"]), rows["last_op"])
        texts = self._stacks.told(_stack_text)
        site = _numbered([text and text.partition("\n")[0] for text in texts], words["site"])
        stack = _numbered(texts, words["stack"])
        for prefix in ("", "last_"):
            found[f"{prefix}site"] = _looked_up(site, rows[f"{prefix}stack"])
            found[f"{prefix}stack"] = _looked_up(stack, rows[f"{prefix}stack"])
        return found

    def _thread_numbers(self, idents: Any, words: Dictionary) -> list[int | None]:
        self._threads.update((thread.ident or 0, thread.name) for thread in threading.enumerate())
        names = {ident: self._threads.get(ident, f"thread {ident}") for ident in set(idents) - {0}}
        numbers = {ident: words["thread"].number(name) for ident, name in names.items()}
        return [numbers.get(ident) for ident in idents]


class _Words:
    """Values by number, from 1 on, given in any thread; what they are called is asked once, in the writer's."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._next = itertools.count(1)
        self._read = 0
        self._told: list[Any] = [None]

    def number(self, value: Any) -> int:
        if not value:
            return 0
        number = self._known.get(value)
        # Two threads that meet a value at once take two numbers, of which one stays unused.
        return self._known.setdefault(value, next(self._next)) if number is None else number

    def told(self, tell: Callable[[Any], Any]) -> list[Any]:
        """What each number is called."""
        # Not of `items()`: its tuples can start a collection, during which another thread adds to the dict.
        fresh = list(self._known)[self._read :]
        self._read += len(fresh)
        for value in fresh:
            number = self._known[value]
            self._told.extend([None] * (number + 1 - len(self._told)))
            self._told[number] = tell(value)
        return self._told


def _known(values: Any) -> list[int | None]:
    return [None if value == _NONE else value for value in values]


def _looked_up(numbers: Sequence[int | None], values: Any) -> list[int | None]:
    return [numbers[value] for value in values]


def _numbered(texts: Sequence[str | None], words: Any) -> list[int | None]:
    return [words.number(text) if text else None for text in texts]


def _text(part: Any) -> str | None:
    return str(list(part)) if isinstance(part, tuple) else part or None


def _stack_text(stack: Any) -> str:
    return stack if isinstance(stack, str) else stacks.text(stack)
