"""Being told of forks: neither an SQLite connection nor a lock may be used on both sides of one."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something that a child process must not go on using."""

    def forked(self) -> None:
        """Called in the child, before any other code runs there."""


_watching: weakref.WeakSet[Forked] = weakref.WeakSet()


def watch(thing: Forked) -> None:
    """Have `thing.forked()` called in every child of this process."""
    _watching.add(thing)


def _in_child() -> None:
    for thing in list(_watching):
        thing.forked()


os.register_at_fork(after_in_child=_in_child)
