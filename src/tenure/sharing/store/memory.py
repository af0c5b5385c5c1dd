"""The store in this process: the very tensors that were put, by name.

A reader takes no lock: one look-up in a dict, which is changed by one assignment. What a name lets go of is let go of
outside of the lock, since a tensor's end can run anybody's code.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tenure.analysis.holders.keepers import keepers
from tenure.errors import StoreError
from tenure.frameworks import exchange
from tenure.lifetime import dispose, regions
from tenure.model import Link, Remains
from tenure.sharing import store
from tenure.sharing.store.base import Doer, Entry, Grave, Missing, Reading
from tenure.sharing.store.names import checked

_GRAVES = 1024


@dataclass(frozen=True, slots=True)
class Kept:
    """The value of a name."""

    value: Any
    entry: Entry


class Room:
    """The names of one store, for all who opened it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.kept: dict[str, Kept] = {}
        self.graves: dict[str, Grave] = {}
        self.forgotten = 0  # the highest version among graves that had to make room
        self.leases: dict[str, dict[str, tuple[Doer, int]]] = {}
        self.tokens = 0
        # Reentrant, since a lease can end in a garbage collection, which can begin under the lock.
        # It is taken by itself: an interrupt in a Condition's own `__exit__` would leave it locked.
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        _all.add(self)

    def forked(self) -> None:
        """Create a new lock in a forked child: it has copies of the tensors, and only the thread that forked."""
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        me = threading.get_ident()
        for leases in self.leases.values():
            for token, (_, thread) in list(leases.items()):
                if thread != me:
                    del leases[token]


_all: weakref.WeakSet[Room] = weakref.WeakSet()
_named: dict[str, Room] = {}
_naming = threading.Lock()


def connect(rest: str, url: str) -> MemoryStore:
    """Return the store of that name, one for the process; without a name, a new one."""
    if not rest:
        return MemoryStore(Room(url))
    name = checked(rest)
    with _naming:
        return MemoryStore(_named.get(name) or _named.setdefault(name, Room(f"memory:{name}")))


class MemoryStore:
    """One opening of a room; see `Backend`."""

    def __init__(self, room: Room) -> None:
        self.url = room.url
        self.known: dict[str, Kept] = room.kept
        self._opened: Room | None = room
        self._lender = room

    def put(self, name: str, tensor: Any, by: Doer, expect: int | None) -> int:
        """Store the tensor itself; no scope releases it any more."""
        for region in regions.opened():
            region.take([tensor])
        info = exchange.live(tensor)
        shape = tuple(count or 0 for count in info.shape)
        room = self._room
        with room.lock:
            old = room.kept.get(name)
            if expect is not None and expect != (old.entry.version if old else 0):
                raise store.conflict(self, name, expect, old.entry if old else None)
            grave = room.graves.get(name)
            last = old.entry.version if old else grave.version if grave else room.forgotten
            entry = Entry(name, last + 1, info.framework, shape, exchange.spelling(info.dtype), info.nbytes, by)
            room.kept[name] = Kept(tensor, entry)
            room.graves.pop(name, None)
        return last + 1

    def get(self, name: str, like: str | None) -> Reading:
        """Return the tensor itself, or one of another framework on the same bytes."""
        kept = self._room.kept.get(name)
        if kept is None:
            raise Missing(name)
        return _reading(kept, like)

    def entry(self, name: str) -> Entry | None:
        """As it was when it was put."""
        kept = self._room.kept.get(name)
        return kept.entry if kept else None

    def names(self) -> list[str]:
        """Return all names, in order."""
        return sorted(self._room.kept)

    def delete(self, name: str, by: Doer, wait: float) -> Remains:
        """Let go of the tensor. Whoever has it goes on with it, and is told of as its holder."""
        room = self._room
        until = time.monotonic() + wait
        with room.lock:
            while True:
                if name not in room.kept:
                    raise Missing(name)
                leases = list(room.leases.get(name, {}).values())
                left = until - time.monotonic()
                mine = any(thread == threading.get_ident() for _, thread in leases)
                if leases and (left <= 0 or mine):  # who waits for himself, waits for ever
                    raise store.leased(self, name, [holder for holder, _ in leases], mine=mine)
                if not leases:
                    break
                room.changed.wait(min(left, threading.TIMEOUT_MAX))
            kept = room.kept.pop(name)
            self._bury(room, Grave(name, kept.entry.version, by))
        ended = [kept.value]
        del kept
        return dispose.dropped(ended)

    def _bury(self, room: Room, grave: Grave) -> None:
        room.graves[grave.name] = grave
        if len(room.graves) > _GRAVES:
            oldest = room.graves.pop(next(iter(room.graves)))
            room.forgotten = max(room.forgotten, oldest.version)

    def grave(self, name: str) -> Grave | None:
        """Return one of the last thousand deletion records."""
        return self._room.graves.get(name)

    def lease(self, name: str, by: Doer) -> tuple[Reading, str]:
        """Noted under the lock that deleting needs."""
        room, token = self._room, ""
        try:
            with room.lock:
                kept = room.kept.get(name)
                if kept is None:
                    raise Missing(name)
                room.tokens += 1
                token = str(room.tokens)
                room.leases.setdefault(name, {})[token] = (by, threading.get_ident())
            return _reading(kept, None), token
        except BaseException:  # an interrupt too: nobody else has the token
            self.release(name, token)
            raise

    def release(self, name: str, token: str) -> None:
        """Release a lease, also after the store was closed."""
        room = self._lender
        with room.lock:
            leases = room.leases.get(name, {})
            leases.pop(token, None)
            if not leases:
                room.leases.pop(name, None)
            room.changed.notify_all()

    def leases(self, name: str) -> list[Doer]:
        """Return the leases of all threads."""
        room = self._room
        with room.lock:
            return [holder for holder, _ in room.leases.get(name, {}).values()]

    def close(self) -> None:
        """Close this handle. The contents are dropped with the last one; those of a named store stay."""
        self.known = {}
        self._opened = None

    @property
    def _room(self) -> Room:
        if self._opened is None:
            raise StoreError(f"{self.url} was closed here; open it again with tenure.Store({self.url!r})")
        return self._opened


def _reading(kept: Kept, like: str | None) -> Reading:
    if like is None or like == kept.entry.framework:
        return Reading(kept.value, kept.entry.version)
    made = exchange.into(kept.value, like)
    return Reading(made.tensor, kept.entry.version, made.copied, made.why)


def _keeper() -> Iterator[tuple[object, tuple[Link, ...]]]:
    for room in list(_all):
        for name, kept in room.kept.copy().items():
            yield kept, (Link(room.url, "store", kept.entry.put.site), Link(f"[{name!r}]", "entry"))


keepers.append(_keeper)


def _after_fork() -> None:
    global _naming
    _naming = threading.Lock()
    for room in list(_all):
        room.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
