"""Where operations added nodes to autograd graphs: a file next to a process's stream, one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tenure.trace import told, typed

_FILE: told.Kind = "graphs"
_MOST = 4096  # stacks of one process


def write(folder: Path, stacks: Iterable[str]) -> None:
    """Add these stacks to the trace. Raises OSError where that cannot be written."""
    told.write(folder, _FILE, {"stacks": sorted(set(stacks))[:_MOST]})


def read(folder: Path, pid: int) -> frozenset[str]:
    """Return the stacks of a process. A damaged line is skipped."""
    found: set[str] = set()
    for line in told.read(folder, _FILE, pid):
        try:
            found.update(typed.made(list[str], line.get("stacks")))
        except TypeError:
            continue
    return frozenset(found)
