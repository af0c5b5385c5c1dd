"""Whether a scope holds more than its cap, asked before each birth: what is new and what is gone is looked at, not all.

What is kept here is never less than what all the tensors together have, unless one of them grows where it is. So all
are looked at only when it goes over the cap, and once in as many births as there are tensors, for those that grew.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tenure.frameworks.base import Buffer, memories
from tenure.lifetime import dispose
from tenure.lifetime.regions import Record, Region

_SELDOM = 64  # births, at least, between two looks at everything


@dataclass(slots=True, eq=False)
class _Piece:
    """A piece of memory, and how many buffers lie on it."""

    nbytes: int
    users: int = 0


@dataclass(slots=True, eq=False)
class _Known:
    """A buffer, the piece of memory that it lies on, and how many of the records have it."""

    buffer: Buffer
    piece: _Piece
    users: int = 0


@dataclass(slots=True, eq=False)
class _Held:
    record: Record  # kept, so that its id stays its own
    ref: Any
    buffers: list[_Known]


class Budget:
    """The bytes behind what a region owns, kept as it changes."""

    def __init__(self, region: Region, cap: int) -> None:
        self._region = region
        self._cap = cap
        self._lock = threading.Lock()
        self._dead: deque[int] = deque()  # filled when and where a handle dies
        self._moved = 0
        self._begin()

    def _begin(self) -> None:
        self._total = 0
        self._known: dict[object, _Known] = {}
        self._held: dict[int, _Held] = {}
        self._last: Record | None = None
        self._since = 0

    def forget(self) -> None:
        """Begin again from the records, and refer to nothing until then."""
        if self._lock.acquire(blocking=False):
            self._begin()
            self._moved = 0
            self._lock.release()

    def is_over(self) -> bool:
        """Whether it is more than the cap. Asked while it answers, by a birth in here or another thread, it says no."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._since += 1  # it is asked at each birth
            self._follow()
            if self._total > self._cap or self._since > _SELDOM + len(self._held):
                self._count()
            return self._total > self._cap
        finally:
            self._lock.release()

    def _follow(self) -> None:
        """Take in what happened since the last time."""
        while self._dead:
            self._forget(self._dead.popleft())
        moved = self._region.moved
        for number in list(islice(reversed(moved), max(0, len(moved) - self._moved))):
            self._forget(number)
        self._moved = len(moved)
        for record in self._new():
            self._last = record
            handle = record[0]()
            if handle is not None and id(record) not in moved:
                self._hold(record, handle)

    def _new(self) -> list[Record]:
        """The records that came to the end of the list, which loses dead ones at any time but keeps its order."""
        births = self._region.births or []
        size = 8
        while True:
            tail = births[-size:]
            for at in range(len(tail) - 1, -1, -1):
                if tail[at] is self._last or id(tail[at]) in self._held:
                    return tail[at + 1 :]
            if len(tail) < size:
                return tail
            size *= 4

    def _hold(self, record: Record, handle: Any) -> None:
        buffers = _behind(handle)
        for buffer in buffers:
            known = self._known.get(buffer.key)
            if known is None:
                self._lie([buffer], buffer.nbytes if buffer.span is None else buffer.span[2] - buffer.span[1])
            elif (known.buffer.span, known.buffer.nbytes) != (buffer.span, buffer.nbytes):
                self._since = sys.maxsize  # a name used again, after its bytes went from under a handle: count anew
        self._have(record, handle, buffers)

    def _lie(self, buffers: list[Buffer], nbytes: int) -> None:
        piece = _Piece(nbytes, len(buffers))
        self._known.update((buffer.key, _Known(buffer, piece)) for buffer in buffers)
        self._total += nbytes

    def _have(self, record: Record, handle: Any, buffers: Iterable[Buffer]) -> None:
        have = [self._known[key] for key in dict.fromkeys(buffer.key for buffer in buffers)]
        self._held[id(record)] = _Held(record, weakref.ref(handle, self._notice(id(record))), have)
        for known in have:
            known.users += 1

    def _notice(self, number: int) -> Callable[[object], None]:
        dead = self._dead
        return lambda _: dead.append(number)

    def _forget(self, number: int) -> None:
        held = self._held.pop(number, None)
        for known in held.buffers if held is not None else ():
            known.users -= 1
            if known.users == 0:
                del self._known[known.buffer.key]
                known.piece.users -= 1
                self._total -= known.piece.nbytes if known.piece.users == 0 else 0

    def _count(self) -> None:
        """Begin anew with all that the region owns."""
        self._begin()
        self._dead = deque()  # what dies from now on; who told the old one told of records that are not held now
        births, moved = list(self._region.births or ()), self._region.moved
        self._last = births[-1] if births else None
        self._moved = len(moved)
        living = [(record, record[0]()) for record in births if id(record) not in moved]
        living = [(record, handle) for record, handle in living if handle is not None]
        behind = [_behind(handle) for _, handle in living]
        for nbytes, buffers in memories(buffer for found in behind for buffer in found):
            self._lie(buffers, nbytes)
        for (record, handle), found in zip(living, behind, strict=True):
            self._have(record, handle, found)


def _behind(handle: Any) -> list[Buffer]:
    return [buffer for part in dispose.parts([handle]) for buffer in part.buffers]
