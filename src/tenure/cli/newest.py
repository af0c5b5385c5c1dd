"""The trace that a command reads if the user names none: the newest one in the current folder.

Not a command.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tenure.errors import TraceError

# How the help of a command describes a trace; the second is for commands that read the files of other tools, too.
READ = "read this trace: its folder, or one of its .arrows files"
READ_ANY = (
    "read this trace: its folder, one of its .arrows files, a CUDA snapshot of PyTorch, or a memory profile of JAX"
)


def named(trace: str | None) -> str:
    """Return the trace that the user named, or else the newest one; which that is goes to standard error."""
    return _used(_newest(1)[0]) if trace is None else trace


def two() -> tuple[str, str]:
    """Return the two newest traces, the older one first."""
    after, before = _newest(2)
    return _used(before, "the second newest trace"), _used(after)


def _newest(count: int) -> list[Path]:
    from tenure.trace import folders

    found = folders.newest(Path.cwd())
    if not found:
        raise TraceError("there is no trace in this folder; record one with: tenure run SCRIPT, or name its folder")
    if len(found) < count:
        raise TraceError(f"there is only one trace in this folder, {folders.shown(found[0])}; name two to compare")
    return found[:count]


def _used(folder: Path, which: str = "the newest trace") -> str:
    from tenure.trace import folders
    from tenure.views.formats.text import clean

    name = folders.shown(folder)
    sys.stderr.write(f"tenure: reading {which}, {clean(name)}\n")
    return name
