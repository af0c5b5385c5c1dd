"""The folder of a trace: which files in it are the trace's, and when it may be used for another one."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenure.errors import TraceError
from tenure.trace import running, told
from tenure.trace.events import BESIDE, STREAM, VERSION

FORMAT = "tenure trace"
_META = "meta.json"
_STREAM = re.compile(rf"(events-(\d+)(?:-\d+)?)(?:{'|'.join(map(re.escape, (STREAM, *BESIDE)))})")
_SIDE = re.compile(rf"(?:{'|'.join(told.KINDS)})-(\d+)\.jsonl")
_HEAD = 1 << 16  # bytes; each stream's schema, which says that it is of a trace, is in these
_LARGEST = 1 << 20


def take(folder: Path, *, replace: bool = False, run: dict[str, Any] | None = None) -> None:
    """Make this the folder of a new trace, described by meta.json and what else `run` says of it.

    It must be new or empty. A folder with an older trace is used only with `replace`, and then only files of that trace
    are removed. Raises `TraceError` for anything else.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        what = "a link that leads nowhere" if folder.is_symlink() and not folder.exists() else "not a folder"
        raise TraceError(f"cannot write a trace to {shown(folder)}: it is {what}; choose a new or empty folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(entry.name for entry in folder.iterdir())
        if names:
            if not described(folder):
                raise TraceError(f"cannot write a trace to {shown(folder)}: it contains {names[0]}; {_instead(folder)}")
            if not replace:
                raise TraceError(
                    f"{shown(folder)} already contains a trace; pass -f (in Python: replace=True) to replace it, "
                    f"or {_instead(folder)}"
                )
            _remove_trace(folder, names)
        _describe(folder, run or {})
    except FileExistsError as error:
        raise TraceError(
            f"cannot write a trace to {shown(folder)}: another process uses it; {_instead(folder)}"
        ) from error
    except OSError as error:
        raise not_writable(folder, error) from error


def not_writable(folder: Path, error: OSError) -> TraceError:
    """Return the error for a folder that the system does not let us write to."""
    why = error.strerror or error
    return TraceError(f"cannot write a trace to {shown(folder)}: {why}; choose another folder with -o FOLDER")


def remove_empty(folder: Path) -> None:
    """Remove the folder of a trace in which nothing was recorded. Other files in it stay, and so does the folder then."""
    if [entry.name for entry in folder.iterdir()] == [_META] and described(folder):
        (folder / _META).unlink()
        folder.rmdir()


def described(folder: Path) -> dict[str, Any]:
    """What meta.json says, if this is the folder of a trace."""
    meta = folder / _META
    try:
        about = meta.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST:
            return {}
        found = json.loads(meta.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and found.get("format") == FORMAT else {}


def is_part(path: Path, trace: Path) -> bool:
    """Whether this file is the trace, or one of the files in its folder that are."""
    if not path.exists() or not trace.exists():
        return False
    if path.samefile(trace):
        return True
    real = Path(os.path.realpath(path))
    if not real.parent.samefile(trace):
        return False
    return real.name == _META or bool(_STREAM.fullmatch(real.name) or _SIDE.fullmatch(real.name))


def candidates(folder: Path) -> Iterator[Path]:
    """The folder, and those that are used where it contains something: `run`, `run-2`, `run-3` and so on."""
    yield folder
    yield from (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))


def newest(place: Path) -> list[Path]:
    """Return the traces in this folder that recorded something, the newest first.

    A folder is a trace if its meta.json says so; when it began is read from there, too.
    """
    found = []
    try:
        folders = [place, *(entry for entry in place.iterdir() if entry.is_dir())]
    except OSError:
        return []
    for folder in folders:
        about = described(folder)
        with suppress(OSError):
            if about and any(_is_stream(path) for path in folder.glob(f"*{STREAM}")):
                found.append((_began(folder, about), folder))
    return [folder for _, folder in sorted(found, key=lambda one: (-one[0], one[1].name))]


def _began(folder: Path, about: dict[str, Any]) -> float:
    """When a trace began, in seconds since 1970. Traces of older versions do not contain it: their file's time is used."""
    began = about.get("began")
    if isinstance(began, int | float) and not isinstance(began, bool) and math.isfinite(began):
        return float(began)
    return (folder / _META).lstat().st_mtime


def size_of(folder: Path) -> int:
    """Return how many bytes the files of the trace in this folder have."""
    with suppress(OSError):
        names = sorted(entry.name for entry in folder.iterdir())
        return sum((folder / name).lstat().st_size for name in (_META, *_files_of_trace(folder, names)))
    return 0


def shown(folder: Path) -> str:
    """The folder as seen from here, if it is below."""
    try:
        return str(folder.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return os.fspath(folder)


def _instead(folder: Path) -> str:
    free = next(one for one in itertools.islice(candidates(folder), 1, None) if not os.path.lexists(one))
    return f"use a new or empty folder, such as {shown(free)}"


def _describe(folder: Path, run: dict[str, Any]) -> None:
    about = {
        "format": FORMAT,
        "version": VERSION,
        "command": sys.argv,
        "python": sys.version.split()[0],
        "pid": os.getpid(),
        "began": round(time.time(), 3),
        **run,
    }
    meta = folder / _META
    file = meta.open("x", encoding="utf-8")
    try:
        with file:
            file.write(json.dumps(about, indent=1) + "\n")
    except OSError:
        meta.unlink()  # half of it would say nothing
        raise


def _remove_trace(folder: Path, names: list[str]) -> None:
    """Remove the files of the trace; other files stay, unless readers would take them for a part of the next one."""
    writers = [str(one.pid) for one in running.find() if one.recording and one.folder == folder.resolve()]
    if writers:
        raise TraceError(
            f"process {writers[0]} still writes a trace to {shown(folder)}; wait until it exits, or {_instead(folder)}"
        )
    ours = _files_of_trace(folder, names)
    for name in names:
        if name.endswith(".arrows") and name not in ours:
            raise TraceError(
                f"cannot write a trace to {shown(folder)}: {name} is not part of the trace in it; {_instead(folder)}"
            )
    for name in ours:
        (folder / name).unlink()
    (folder / _META).unlink()  # last: until then what is left says what it is


def _files_of_trace(folder: Path, names: list[str]) -> list[str]:
    """What belongs to the trace: streams that say so themselves, and what is called after these and their processes."""
    streams = {name: match for name in names if (match := _STREAM.fullmatch(name)) is not None}
    stems = {match[1] for name, match in streams.items() if name.endswith(".arrows") and _is_stream(folder / name)}
    processes = {match[2] for match in streams.values() if match[1] in stems} | {str(described(folder).get("pid"))}
    found = [name for name, match in streams.items() if match[1] in stems]
    found += [name for name in names if (match := _SIDE.fullmatch(name)) is not None and match[1] in processes]
    return [name for name in found if (folder / name).is_symlink() or (folder / name).is_file()]


def _is_stream(path: Path) -> bool:
    """Whether a process wrote this as a stream of a trace; one that was killed at once may have cut off its schema."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD)
    is_cut = len(head) < 8 or 8 + int.from_bytes(head[4:8], "little") > path.stat().st_size
    return b"tenure.version" in head or (is_cut and b"\xff\xff\xff\xff".startswith(head[:4]))
