"""Forks: neither an SQLite connection nor a lock may be used on both sides of one, nor may SQLite be at work meanwhile.

A child has only the thread that forked. If another one was inside of SQLite at that moment, SQLite's own locks stay
locked in the child for ever. So a fork waits until nobody is, which takes milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Protocol


class Forked(Protocol):
    """Something that a child process must not go on using."""

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
    """Have `thing.forked()` called in every child of this process."""
    _watching.add(thing)


@contextlib.contextmanager
def held_off() -> Iterator[None]:
    """No fork happens in this block, but by this very thread. To be left soon; may be entered again inside."""
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


def _before() -> None:
    _gate.condition.acquire()
    mine = 1 if getattr(_gate.mine, "depth", 0) else 0
    _gate.condition.wait_for(lambda: _gate.count <= mine)


def _in_parent() -> None:
    _gate.condition.release()


def _in_child() -> None:
    global _gate
    _gate = _Gate()  # the old one stays locked; whoever forked inside of a block leaves it by that one
    for thing in list(_watching):
        thing.forked()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
