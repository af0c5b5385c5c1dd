"""The processes that still read a file whose name was removed."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tenure.model import Holder, Link


def any_other(fd: int) -> bool | None:
    """Return whether another user has this file open or mapped, in any process; None if the kernel does not show it.

    A write lease (Linux) is given only to the single user of a file.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # Whoever opens it in this moment has the kernel send a signal, and the usual one would end this process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        return True
    except OSError:
        return None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def holders(file: str) -> list[Holder]:
    """Return the processes that map a file of this (unique) name, as far as this user may see them."""
    return [Holder("process", (Link(told, "process"),)) for told in _mapping(file)]


def _mapping(file: str) -> Iterator[str]:
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            if file not in (process / "maps").read_text(errors="replace"):
                continue
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended, or is another user's
        mine = ", this one" if int(process.name) == os.getpid() else ""
        yield f"{process.name}{mine} ({' '.join(words).strip()[:80]})"
