"""The live users of a store: each holds a lock on its own file, and the kernel releases the lock when the process exits.

A process number would do only on one machine without containers, and is given again to others; a lock is neither.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import weakref
from pathlib import Path

from tenure import descriptors
from tenure.sharing.store.file import forks


class Presence:
    """One user of a store: `id` is known to the others, and `alive` to them as long as this object and its process live.

    To be made, and to be cleared away, only inside of a write transaction of the index: else one could be taken for
    dead between its making and its locking.
    """

    def __init__(self, folder: Path) -> None:
        self.process = os.getpid()
        self.id = f"{self.process}-{secrets.token_hex(8)}"
        path = folder / self.id
        self._fd = descriptors.raised(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
        self._known = descriptors.identity(self._fd)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self._end = weakref.finalize(self, _let_go, path, self._fd, self._known)
        forks.watch(self)

    def end(self) -> None:
        """Let go: what this user leased is leased no more."""
        self._end()

    def before_fork(self) -> None:
        """Leave the lock to the parent."""

    def forked(self) -> None:
        """Close the child's copy of the lock, which would outlive its owner."""
        if self._end.detach() is not None:
            descriptors.close(self._fd, self._known)


def _let_go(path: Path, fd: int, known: descriptors.Identity | None) -> None:
    with contextlib.suppress(OSError):  # the whole folder may be gone
        path.unlink()
    descriptors.close(fd, known)


def alive(folder: Path, id: str) -> bool:  # noqa: A002 - it is one
    """Return whether that user is still alive."""
    try:
        fd = os.open(folder / id, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who ask at the same time do not take each other for the owner.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
