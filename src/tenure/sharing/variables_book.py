"""The variables created in this process: where each was created first, and one creator at a time for each name."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from tenure.errors import StoreError
from tenure.model import Site


@dataclass
class Record:
    """A variable that `variable` gave out: a weak reference to it, where it was first made, and the store's version."""

    ref: weakref.ref[Any]
    first: Site | None
    version: int = 0


class Book:
    """The variables of one store, or of one graph, by whole name."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def note(self, name: str, variable: Any, first: Site | None, version: int = 0) -> None:
        """Register the variable of that name. It keeps the registry alive."""
        self.records[name] = Record(weakref.ref(variable), first, version)
        weakref.finalize(variable, id, self).atexit = False

    def forget(self, name: str) -> None:
        """Remove the variable from the registry."""
        self.records.pop(name, None)

    def find(self, name: str) -> Any:
        """Return the variable, if it is still alive."""
        record = self.records.get(name)
        return record.ref() if record is not None else None


opening = threading.Lock()  # held while the book of a store is looked up
_lock = threading.RLock()  # taken by itself: an interrupt in a Condition's own `__exit__` would leave it locked
_changed = threading.Condition(_lock)
# By book and name: the thread that makes it, and its `alone`, which is gone if an interrupt kept that from its end.
_busy: dict[tuple[int, str], tuple[int, weakref.ref[Any]]] = {}
_waits: dict[int, tuple[int, str]] = {}
_LOOK = 0.5  # seconds between two looks whether somebody is still at work


class alone:  # noqa: N801 - used like a function
    """While this thread finds or makes a variable; others that ask for the same name wait.

    Not a generator: an interrupt would leave that half-way, and the name busy until its traceback is gone.
    """

    _holds = False

    def __init__(self, book: Book, name: str) -> None:
        self._key = id(book), name

    def __enter__(self) -> None:
        key, me = self._key, threading.get_ident()
        try:
            with _lock:
                while _owner(key) is not None:
                    _refuse_circle(key, me)
                    _waits[me] = key
                    try:
                        _changed.wait(_LOOK)
                    finally:
                        del _waits[me]
                _busy[key] = me, weakref.ref(self)
                self._holds = True
        except BaseException:
            self._let_go()
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            self._let_go()
        except BaseException:  # an interrupt in the middle of it
            self._let_go()
            raise

    def _let_go(self) -> None:
        with _lock:
            if self._holds:
                _busy.pop(self._key, None)
                self._holds = False
            if _waits:
                _changed.notify_all()


def _owner(key: tuple[int, str]) -> int | None:
    thread, alone = _busy.get(key, (None, lambda: None))
    return thread if alone() is not None else None


def _refuse_circle(key: tuple[int, str], me: int) -> None:
    """Raise if the thread that creates this name waits, directly or indirectly, for this thread."""
    owner = _owner(key)
    while owner is not None and owner != me:
        awaited = _waits.get(owner)
        owner = _owner(awaited) if awaited is not None else None
    if owner == me:
        raise StoreError(
            f"variable {key[1]!r} is requested while it is being created: its init requests it, directly or through another "
            "variable's init; give one of them a first value that does not need the other"
        )


def _forked() -> None:
    """Reset the lock in a forked child, where no other thread could release it."""
    global _changed, _lock, opening
    _lock = threading.RLock()
    _changed = threading.Condition(_lock)
    opening = threading.Lock()
    _busy.clear()
    _waits.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
