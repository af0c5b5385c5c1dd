"""Which processes are being traced now: those that hold a stream of a trace open. They are looked at from outside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tenure.trace.autostart import RUN, TRACE

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Running:
    """A traced process: where its trace goes, its command, and whether it has begun to record."""

    pid: int
    folder: Path
    command: tuple[str, ...]
    recording: bool


def can_be_told() -> bool:
    """Whether this system shows who is running."""
    return (_PROC / "self" / "fd").is_dir()


def find() -> list[Running]:
    """The traced processes of this user, in the order of their numbers."""
    found = []
    for pid in _own():
        folders = {path.parent for path in _open_streams(pid)}
        waiting = None if folders else _asked_for(pid)
        if waiting is not None:
            found.append(Running(pid, waiting, _command(pid), recording=False))
        found.extend(Running(pid, folder, _command(pid), recording=True) for folder in sorted(folders))
    return found


def is_writing(pid: int, stream: Path) -> bool:
    """Whether that process runs here and has the stream open; where that is not shown, whether it runs."""
    if can_be_told():
        return stream.resolve() in _open_streams(pid)
    return exists(pid)


def exists(pid: int) -> bool:
    """Whether there is a process of this number here."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _own() -> Iterator[int]:
    me = os.getuid() if hasattr(os, "getuid") else -1
    try:
        entries = sorted(int(name) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208
    except OSError:
        return
    for pid in entries:
        try:
            if pid != os.getpid() and (_PROC / str(pid)).stat().st_uid == me:
                yield pid
        except OSError:  # it has ended meanwhile
            continue


def _open_streams(pid: int) -> set[Path]:
    found = set()
    folder = f"{_PROC}/{pid}/fd"
    try:
        for name in os.listdir(folder):  # noqa: PTH208
            try:
                target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
            except OSError:  # closed meanwhile
                continue
            if target.endswith(".arrows") and _is_written(pid, name):
                found.add(Path(target))
    except OSError:  # ended meanwhile, or another's
        pass
    return found


def _is_written(pid: int, handle: str) -> bool:
    """Whether a file is open for writing: those who read a trace have it open too."""
    try:
        told = Path(f"{_PROC}/{pid}/fdinfo/{handle}").read_text(encoding="ascii")
        flags = next(line.split()[1] for line in told.splitlines() if line.startswith("flags:"))
        return bool(int(flags, 8) & os.O_ACCMODE)
    except (OSError, ValueError, StopIteration, IndexError):
        return False


def may_write(folder: Path, *, ended: int) -> bool:
    """Whether a process other than `ended` may still record into this folder; where that is not shown, one may."""
    if not can_be_told():
        return True
    asked = (_environment(pid).get(TRACE) for pid in _own() if pid != ended)
    return any(name is not None and Path(name) == folder for name in asked)


def _environment(pid: int) -> dict[str, str]:
    """The variables that a process began with; none if it is another's."""
    try:
        words = Path(f"{_PROC}/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(word).partition("=")[::2] for word in words)


def _asked_for(pid: int) -> Path | None:
    """The trace of a process that began a run and has not imported a framework yet."""
    told = _environment(pid)
    try:
        begun = json.loads(told[RUN]).get("pid") == pid
    except (KeyError, ValueError, AttributeError):
        return None
    folder = Path(told.get(TRACE, ""))
    return folder if begun and (folder / "meta.json").exists() else None


def _command(pid: int) -> tuple[str, ...]:
    try:
        words = Path(f"{_PROC}/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in words if word)
