"""What happened, as rows of numbers, and the way from there to the columns of a trace, all rows at once.

A recorder that sees a birth every few microseconds cannot make an object of each. So it keeps numbers, and the
writer's thread turns them into columns with a few array operations.
"""

from __future__ import annotations

import threading
import weakref
from array import array
from collections.abc import Callable, Sequence
from threading import get_ident
from time import monotonic_ns
from typing import Any, NamedTuple

import numpy

from tenure import stacks

# As native/array_births.c fills it.
ROW = numpy.dtype(
    [(name, "<i8") for name in ("time", "last_use", "bytes", "thread", "stack")]
    + [(name, "<u4") for name in ("buffer", "uses", "last_stack")]
    + [(name, "<i4") for name in ("step", "op", "last_op", "what", "event", "cause", "kind", "scope", "_")]
)
BIRTH, USE, END = 1, 2, 3
EVENTS = (None, "birth", "use", "end", "kind")
CAUSES = ("", "last reference", "delete", "donate")

# Buffers of recorders that keep such tables; others number theirs below.
FIRST_JAX = 3 << 30
FIRST_TENSORFLOW = 7 << 29


class Names:
    """Words by number, as they come; none is 0."""

    def __init__(self, words: Sequence[str] = ("",)) -> None:
        self.words = list(words)

    def number(self, word: str) -> int:
        """The number of this word."""
        if word not in self.words:
            self.words.append(word)
        return self.words.index(word)


class What(NamedTuple):
    """What a buffer holds, as the trace tells it."""

    shape: str
    dtype: str
    device: str


class Columns:
    """A table that is ready to be written; see `Source.drain`."""

    def __init__(
        self,
        rows: Any,
        ops: Sequence[str],
        whats: Sequence[What],
        kinds: Sequence[str | None],
        scopes: Names,
        causes: Names,
        threads: dict[int, str],
        texts: Sequence[str] = (),
    ) -> None:
        self._rows = rows
        self._ops = ops
        self._whats = whats
        self._kinds = kinds
        self._scopes = scopes
        self._causes = causes
        self._threads = threads
        self._texts = texts  # stacks below zero: -1 is the first

    def take(self, dictionary: Any, since: Callable[[Any], Any], name: str) -> tuple[dict[str, Any], int]:
        """The columns and their length."""
        rows = self._rows
        if not len(rows):
            return {}, 0
        births, used = rows["event"] == BIRTH, rows["uses"] > 0
        told = ~births & (rows["event"] != 4)
        here = rows["event"] != USE
        stack, site = self._places(dictionary, rows["stack"])
        last_stack, last_site = self._places(dictionary, rows["last_stack"])
        what = rows["what"]
        columns = {
            "time": _numbers(since(rows["time"]), "int64"),
            "buffer": _numbers(rows["buffer"], "uint32"),
            "bytes": _numbers(rows["bytes"], "int64", births),
            "step": _numbers(rows["step"], "int32", here),
            "uses": _numbers(rows["uses"], "uint32", told),
            "last_use": _numbers(since(rows["last_use"]), "int64", told & used),
            "event": _words(dictionary["event"], EVENTS, rows["event"]),
            "framework": _words(dictionary["framework"], (None, name), births.astype("i4")),
            "shape": _words(dictionary["shape"], [one.shape for one in self._whats], what),
            "dtype": _words(dictionary["dtype"], [one.dtype for one in self._whats], what),
            "device": _words(dictionary["device"], [one.device for one in self._whats], what),
            "op": _words(dictionary["op"], self._ops, rows["op"]),
            "last_op": _words(dictionary["op"], self._ops, numpy.where(told & used, rows["last_op"], -1)),
            "kind": _words(dictionary["kind"], self._kinds, rows["kind"]),
            "cause": _words(dictionary["cause"], self._causes.words, rows["cause"]),
            "scope": _words(dictionary["scope"], self._scopes.words, numpy.where(here, rows["scope"], 0)),
            "thread": self._thread_names(dictionary["thread"], numpy.where(here, rows["thread"], 0)),
            "stack": stack, "site": site, "last_stack": last_stack, "last_site": last_site,
        }  # fmt: skip
        return columns, len(rows)

    def _places(self, dictionary: Any, numbers: Any) -> tuple[Any, Any]:
        found, back = numpy.unique(numbers, return_inverse=True)
        texts = [self._text(int(number)) for number in found]
        sites = [None if text is None else text.partition("\n")[0] for text in texts]
        return _words(dictionary["stack"], texts, back), _words(dictionary["site"], sites, back)

    def _text(self, number: int) -> str | None:
        return (stacks.text(number) if number > 0 else self._texts[-number - 1] if number < 0 else "") or None

    def _thread_names(self, words: Any, numbers: Any) -> Any:
        self._threads.update((thread.ident or 0, thread.name) for thread in threading.enumerate())
        found, back = numpy.unique(numbers, return_inverse=True)
        names = [self._threads.get(int(number), f"thread {number}") if number else None for number in found]
        return _words(words, names, back)


def _numbers(values: Any, kind: str, known: Any = None) -> Any:
    """An Arrow array. Made of its parts: pyarrow's own way looks for pandas each time."""
    import pyarrow as pa

    values = numpy.ascontiguousarray(values, kind)
    valid = None if known is None else pa.py_buffer(numpy.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.type_for_alias(kind), len(values), [valid, pa.py_buffer(values)])


def _words(words: Any, texts: Sequence[str | None], places: Any) -> Any:
    """The numbers of `texts[place]`; nothing for a place below zero or without a text."""
    known = numpy.array([words.number(text) if text else -1 for text in texts] + [-1], "i4")
    numbers = known[places]
    return _numbers(numbers, "int32", numbers >= 0)


class Buffer(weakref.ref[Any]):
    """What happened to a buffer since its birth, kept on a weak reference to its first handle.

    One object and not two: each is one more for the garbage collector to go over, which is most of what it costs.
    Another handle of the same buffer has one too, whose `root` is the first.
    """

    __slots__ = (
        "holders",
        "key",
        "kind",
        "last_op",
        "last_stack",
        "last_use",
        "number",
        "root",
        "stack",
        "step",
        "uses",
    )

    holders: int  # handles that share it
    key: int
    kind: int
    last_op: int
    last_stack: int
    last_use: int
    number: int
    root: Buffer | None
    stack: int  # of its birth
    step: int
    uses: int

    # Not those of the tensor, which has none.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Table:
    """Rows of a recorder in Python: a birth or an end is a few numbers until the writer's thread comes."""

    def __init__(self, first: int, kinds: Sequence[str | None]) -> None:
        self._last = first
        self._kinds = kinds
        self._births, self._ends, self._changes = array("q"), array("q"), array("q")
        self._threads: dict[int, str] = {}
        self._scopes, self._causes = Names(), Names(CAUSES)
        self._scope: dict[int, int] = {}  # of each thread
        self._cause: dict[int, int] = {}
        self.used: set[Buffer] = set()
        self.step = 0
        self.ops: list[str] = []
        self.whats: list[What] = []

    def born(
        self,
        tensor: Any,
        gone: Callable[[Any], None],
        nbytes: int,
        op: int,
        what: int,
        stack: int,
        kind: int,
        time: int,
    ) -> Buffer:
        """A buffer came to be with this handle."""
        self._last = number = self._last + 1
        thread = get_ident()
        scope = self._scope.get(thread, 0)
        self._births.extend((time, nbytes, thread, stack, number, self.step, op, what, kind, scope))
        buffer = Buffer(tensor, gone)
        buffer.number = number
        buffer.stack = stack
        buffer.step = self.step
        buffer.kind = kind
        buffer.root = None
        buffer.holders = 1
        buffer.uses = buffer.last_use = buffer.last_stack = 0
        buffer.last_op = -1
        return buffer

    def ended(self, buffer: Buffer, stack: int) -> None:
        """Its last handle is gone."""
        self.used.discard(buffer)
        thread = get_ident()
        self._ends.extend(
            (monotonic_ns(), buffer.last_use, thread, stack, buffer.number, buffer.uses, buffer.last_stack, self.step,
             buffer.last_op, buffer.kind, self._scope.get(thread, 0), self._cause.get(thread, 1))
        )  # fmt: skip

    def in_scope(self, name: str) -> None:
        """The running thread is in this scope."""
        self._scope[get_ident()] = self._scopes.number(name)

    def ending(self, cause: str) -> None:
        """What this thread ends, it ends for this cause."""
        self._cause[get_ident()] = self._causes.number(cause) or 1

    def is_a(self, buffer: Buffer, kind: int) -> None:
        """It was found out to be of this kind."""
        if buffer.kind != kind:
            buffer.kind = kind
            self._changes.extend((monotonic_ns(), get_ident(), buffer.number, self.step, kind))

    def take(self) -> Columns:
        """What happened since the last time."""
        # Other threads go on meanwhile. Ends are taken first: whatever ended was born before.
        ends, changes = _emptied(self._ends), _emptied(self._changes)
        used = list(self.used)
        self.used.difference_update(used)
        births = _emptied(self._births)
        uses = array("q")
        for one in used:
            uses.extend((one.last_use, one.last_use, one.number, one.uses, one.last_stack, one.last_op, one.kind))
        parts = (
            _part(births, BIRTH, ("time", "bytes", "thread", "stack", "buffer", "step", "op", "what", "kind",
                            "scope")),
            _part(changes, 4, ("time", "thread", "buffer", "step", "kind")),
            _part(uses, USE, ("time", "last_use", "buffer", "uses", "last_stack", "last_op", "kind")),
            _part(ends, END, ("time", "last_use", "thread", "stack", "buffer", "uses", "last_stack", "step", "last_op",
                              "kind", "scope", "cause")),
        )  # fmt: skip
        rows = numpy.concatenate(parts)
        return Columns(rows, self.ops, self.whats, self._kinds, self._scopes, self._causes, self._threads)


def _emptied(queue: array[int]) -> array[int]:
    """What is in it now, taken out. One call of each, for other threads add to it."""
    taken = queue[: len(queue)]
    del queue[: len(taken)]
    return taken


def _part(numbers: array[int], event: int, names: Sequence[str]) -> Any:
    table = numpy.frombuffer(numbers, "i8").reshape(-1, len(names))
    rows: Any = numpy.zeros(len(table), ROW)
    rows["op"] = rows["last_op"] = rows["what"] = -1
    rows["event"] = event
    for name, values in zip(names, table.T, strict=True):
        rows[name] = values
    return rows
