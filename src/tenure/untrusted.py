"""Reading files that anyone may have written: what they cost is known before they are read."""

from __future__ import annotations

import errno
import functools
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

# Of the marks that begin a value. An empty list of three bytes takes 64 in memory, so the bytes alone limit nothing.
_VALUES = 3_000_000
_LARGEST_SOURCE = 20_000_000  # bytes


def content(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file. Raises OSError, also for a pipe or a device, and for more than `most` bytes.

    A pipe would block until something is written to it, and some devices never end.
    """
    regular(path)
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        known = os.fstat(handle)
        _is_regular(known)
        # One of the kernel's own files says that it has 0 bytes.
        found = b"" if known.st_size > most else file.read(most + 1)
        if max(len(found), known.st_size) > most:
            told = f"it has {max(len(found), known.st_size):,} bytes, and {most:,} is the most that is read"
            raise OSError(errno.EFBIG, told)
    return found


def regular(path: str | os.PathLike[str]) -> None:
    """Raises OSError for what is no regular file. To open a pipe may block, and to open a device may do something."""
    _is_regular(os.stat(path))  # noqa: PTH116


def _is_regular(known: os.stat_result) -> None:
    if stat.S_ISDIR(known.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(known.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def parsed(raw: bytes | str) -> Any:
    """The value of a JSON text. Raises ValueError, also where it holds more values than any file of ours."""
    data = raw if isinstance(raw, bytes) else raw.encode(errors="replace")
    if sum(map(data.count, (b"[", b"{", b","))) > _VALUES:
        raise ValueError(f"it contains more than {_VALUES:,} values")
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def document(path: Path, most: int) -> Any:
    """The value in a file of JSON. Raises OSError or ValueError."""
    return parsed(content(path, most))


class SourceReader(Protocol):
    """The source files of one run, as they were then."""

    def lines(self, file: str) -> list[str]:
        """Return the lines of a file; empty if they are not known."""

    def is_changed(self, file: str) -> bool:
        """Return whether the file on disk is not what ran."""

    def is_lost(self, file: str) -> bool:
        """Return whether the file was changed since the run, and the trace has no copy of it."""


_reader: ContextVar[SourceReader | None] = ContextVar("reader", default=None)
_P = ParamSpec("_P")
_T = TypeVar("_T")


@contextmanager
def reading(reader: SourceReader | None) -> Iterator[None]:
    """Read source files through this reader in the block: what ran is not always what is on disk now."""
    before = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(before)


def cached(most: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Cache a function of source files, separately for each reader: two runs may have had different files."""

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.lru_cache(most)
        def called(_: SourceReader | None, *args: _P.args, **named: _P.kwargs) -> _T:
            return function(*args, **named)

        @functools.wraps(function)
        def found(*args: _P.args, **named: _P.kwargs) -> _T:
            return called(_reader.get(), *args, **named)  # type: ignore[arg-type]

        return found

    return decorate


def lines(file: str) -> list[str]:
    """Return the lines of a source file that a trace, a log or a frame names; empty if they cannot be read."""
    reader = _reader.get()
    return on_disk(file) if reader is None else reader.lines(file)


def is_changed(file: str) -> bool:
    """Return whether the file on disk is not what ran, in the run that is read."""
    reader = _reader.get()
    return reader is not None and reader.is_changed(file)


def is_lost(file: str) -> bool:
    """Return whether this is source of the run that is read, and was changed since, so that it cannot be shown."""
    reader = _reader.get()
    return reader is not None and reader.is_lost(file)


def on_disk(file: str) -> list[str]:
    """Return the lines that a file has now."""
    import linecache

    if file not in linecache.cache:  # where cells of notebooks are
        try:
            regular(file)
            if os.stat(file).st_size > _LARGEST_SOURCE:  # noqa: PTH116
                return []
        except FileNotFoundError:
            pass  # linecache looks for it by other means
        except (OSError, ValueError):  # ValueError: a name with a null byte
            return []
    return linecache.getlines(file)


def line(file: str, number: int) -> str:
    """One of the lines, with its end; empty if there is none."""
    found = lines(file)
    return found[number - 1] if 0 < number <= len(found) else ""


def between(file: str, start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the text from one line and column to another, both counted from 1."""
    found = lines(file)[start[0] - 1 : end[0]]
    if found:
        found[-1] = found[-1][: end[1] - 1]
        found[0] = found[0][start[1] - 1 :]
    return "".join(found)
