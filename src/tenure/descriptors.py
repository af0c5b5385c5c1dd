"""Descriptors that are provably still what they were.

A program may close every descriptor it did not open itself, or put files of its own in their place: each daemon does.
From then on a remembered number is somebody's socket or database, and nothing of ours may reach it.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

Identity = tuple[int, ...]


def identity(handle: int) -> Identity | None:
    """Which file, pipe or terminal the descriptor refers to now; None if it is closed."""
    try:
        about = os.fstat(handle)
    except OSError:
        return None
    return of(about)


def of(about: os.stat_result) -> Identity:
    """The same, of a file that is not open."""
    return about.st_dev, about.st_ino, about.st_rdev, stat.S_IFMT(about.st_mode)


class OwnFile:
    """A new file that only this object writes to, always at its end.

    Before each write the descriptor is compared with the file that was made. If it is lost, the file is opened again.
    Raises OSError where that is not the same file any more.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._handle = _opened(path, os.O_CREAT | os.O_EXCL)
        self._known = identity(self._handle)

    def write(self, data: bytes) -> None:
        """Append it, all of it."""
        rest = memoryview(data)
        while rest:
            if not self._is_ours():
                self._handle = -1  # not closed: the number is the program's now
                self._handle = _opened(self.path)
                if not self._is_ours():
                    self.close()
                    raise OSError(errno.ESTALE, f"{self.path} was replaced by another file")
            done = os.write(self._handle, rest)
            self.size += done
            rest = rest[done:]

    def replace(self, data: bytes) -> None:
        """Write this over what is there, which is of the same length: a disk that is full has room for it."""
        handle = os.open(self.path, (_FLAGS & ~os.O_APPEND))
        try:
            if identity(handle) == self._known and os.fstat(handle).st_size == len(data):
                os.pwrite(handle, data, 0)
        finally:
            os.close(handle)

    def remove(self) -> None:
        """Remove the file, if it is still the same."""
        with suppress(OSError):
            if of(self.path.lstat()) == self._known:
                self.path.unlink()

    def close(self) -> None:
        """Close the file, unless its descriptor is another's by now."""
        handle, self._handle = self._handle, -1
        close(handle, self._known)

    def _is_ours(self) -> bool:
        if self._handle < 0 or identity(self._handle) != self._known:
            return False
        if os.fstat(self._handle).st_size != self.size:
            raise OSError(errno.EIO, f"{self.path} was changed by another program")
        return True


class ReadFile:
    """A file that is read again and again, also by a program that may close all descriptors meanwhile."""

    _handle = -1
    _known: Identity | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = raised(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._known = identity(self._handle)

    def size(self) -> int:
        """How long it is by now."""
        return os.fstat(self._open()).st_size

    def read(self, count: int, start: int) -> bytes:
        """As many bytes as there are from there, at most `count`."""
        return os.pread(self._open(), count, start)

    def close(self) -> None:
        """Close the file, unless its descriptor is another's by now."""
        handle, self._handle = self._handle, -1
        close(handle, self._known)

    __del__ = close

    def _open(self) -> int:
        if identity(self._handle) != self._known:
            self._handle = raised(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            if identity(self._handle) != self._known:
                os.close(self._handle)
                self._handle = -1
                raise OSError(errno.ESTALE, f"{self.path} was replaced by another file")
        return self._handle


def append(path: Path, data: bytes) -> None:
    """Add this to the end of a file, which is made if need be, by one write: what several threads add does not mix."""
    handle = _opened(path, os.O_CREAT)
    known = identity(handle)
    try:
        os.write(handle, data)
    finally:
        close(handle, known)


_FLAGS = (
    os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
)  # a pipe in its place must not halt us
_USUAL = 1024


def raised(low: int) -> int:
    """The same file under a high number, in place of this one.

    Programs get the lowest free numbers: theirs stay what they are without us, and ours is not given away in the
    instant between a comparison and a write.
    """
    import fcntl
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    least = (_USUAL if limit < 0 else min(limit, _USUAL)) * 15 // 16
    known = identity(low)
    try:
        high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:  # that many are open
        return low
    close(low, known)
    return high


def close(handle: int, known: Identity | None) -> None:
    """Close the descriptor, if it still is what it was: otherwise it is the program's by now."""
    if handle >= 0 and known is not None and identity(handle) == known:
        os.close(handle)


def _opened(path: Path, more: int = 0) -> int:
    handle = raised(os.open(path, _FLAGS | more, 0o644))
    about = path.lstat()
    if identity(handle) != of(about) or not stat.S_ISREG(about.st_mode):
        close(handle, of(about))  # a pipe is closed; what a race put there is not
        raise OSError(errno.ESTALE, f"{path} was replaced by another file")
    return handle
