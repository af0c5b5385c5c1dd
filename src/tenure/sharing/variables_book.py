"""Which variables were made here: where each was made first, and one maker at a time for each name."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
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
        """The variable of that name is this one from now on, which keeps the book while it lives."""
        self.records[name] = Record(weakref.ref(variable), first, version)
        weakref.finalize(variable, id, self).atexit = False

    def forget(self, name: str) -> None:
        """There is none any more."""
        self.records.pop(name, None)

    def find(self, name: str) -> Any:
        """The variable, if it is still alive."""
        record = self.records.get(name)
        return record.ref() if record is not None else None


opening = threading.Lock()  # held while the book of a store is looked up
_changed = threading.Condition()
_busy: dict[tuple[int, str], int] = {}  # by book and name: the thread that makes it
_waits: dict[int, tuple[int, str]] = {}


@contextmanager
def alone(book: Book, name: str) -> Iterator[None]:
    """While this thread finds or makes a variable; others that ask for the same name wait."""
    key, me = (id(book), name), threading.get_ident()
    with _changed:
        while key in _busy:
            _refuse_circle(key, me)
            _waits[me] = key
            try:
                _changed.wait()
            finally:
                del _waits[me]
        _busy[key] = me
    try:
        yield
    finally:
        with _changed:
            _busy.pop(key, None)
            if _waits:
                _changed.notify_all()


def _refuse_circle(key: tuple[int, str], me: int) -> None:
    """Raise if whoever is busy with this name waits, in the end, for this very thread."""
    owner: int | None = _busy[key]
    while owner is not None and owner != me:
        awaited = _waits.get(owner)
        owner = _busy.get(awaited) if awaited is not None else None
    if owner == me:
        raise StoreError(
            f"variable {key[1]!r} is asked for while it is being made: its init asks for it, by itself or by way of the init "
            "of another; give one of them a first value that does not need the other"
        )


def _forked() -> None:
    """In a child, no other thread is busy, and nobody will let go of the lock."""
    global _changed, opening
    _changed = threading.Condition()
    opening = threading.Lock()
    _busy.clear()
    _waits.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
