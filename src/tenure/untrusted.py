"""Reading files that anyone may have written: what they cost is known before they are read."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

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
        raise ValueError(f"it holds more than {_VALUES:,} values")
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def document(path: Path, most: int) -> Any:
    """The value in a file of JSON. Raises OSError or ValueError."""
    return parsed(content(path, most))


def lines(file: str) -> list[str]:
    """The lines of a file of source that a trace, a log or a frame names; empty if it cannot be read."""
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
