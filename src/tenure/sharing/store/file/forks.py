"""Forks: nothing of SQLite may go through one, nor a lock.

SQLite keeps for each file what locks its process has. A child would inherit that and have none of the locks: another
process could clear the log away under its hands. So the connections are closed before a fork, and opened again when
they are needed. And a fork waits until no thread is inside of SQLite, whose mutexes would stay locked in the child.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Protocol


class Forked(Protocol):
    """Something that must not go through a fork."""

    def before_fork(self) -> None:
        """Called in the parent, when no other thread is in a block of `held_off`."""

    def forked(self) -> None:
        """Called in the child, before any other code runs there."""


class _Gate:
    """Counts the threads that are at work; holding its lock, with the count at zero, keeps all others out."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.count = 0
        self.mine = threading.local()


_gate = _Gate()
_watching: weakref.WeakSet[Forked] = weakref.WeakSet()


def watch(thing: Forked) -> None:
    """Have the methods of `thing` called at every fork of this process."""
    _watching.add(thing)


@contextlib.contextmanager
def held_off() -> Iterator[None]:
    """Prevent forks by other threads during this block, which must be short. Blocks may nest."""
    gate = _gate
    depth = getattr(gate.mine, "depth", 0)
    if not depth:
        with gate.condition:
            gate.count += 1
    gate.mine.depth = depth + 1
    try:
        yield
    finally:
        gate.mine.depth = depth
        if not depth:
            with gate.condition:
                gate.count -= 1
                gate.condition.notify_all()


def inside() -> bool:
    """Return whether this thread is in such a block, or its parent was when it forked."""
    return getattr(_gate.mine, "depth", 0) > 0


def _before() -> None:
    _gate.condition.acquire()
    mine = 1 if inside() else 0
    _gate.condition.wait_for(lambda: _gate.count <= mine)
    for thing in list(_watching):
        thing.before_fork()


def _in_parent() -> None:
    _gate.condition.release()


def _in_child() -> None:
    global _gate
    for thing in list(_watching):
        thing.forked()
    _gate = _Gate()  # the old one stays locked by this thread; who forked inside of a block leaves it by that one


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
