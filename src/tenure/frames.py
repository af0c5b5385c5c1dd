"""References that running frames have to objects: the part of a reference count that is only somebody's locals."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

from tenure import native


def local_references(objects: list[Any], *, everywhere: bool = False) -> list[int]:
    """For each object, how many locals of this thread's (or every thread's) running frames refer to it."""
    core = native.load("tenure_births", "births.c")
    if core is not None:
        return core.local_references(objects, everywhere)  # type: ignore[no-any-return]
    counts = {id(thing): 0 for thing in objects}
    for frame in running(everywhere=everywhere):
        for value in values(frame):
            if id(value) in counts:
                counts[id(value)] += 1
    return [counts[id(thing)] for thing in objects]


def running(*, everywhere: bool) -> list[FrameType]:
    """The frames of this thread, or of every thread, that are executing now; tenure's own included."""
    tops = list(sys._current_frames().values()) if everywhere else [sys._getframe(1)]
    found: list[FrameType] = []
    for top in tops:
        frame: FrameType | None = top
        while frame is not None:
            found.append(frame)
            frame = frame.f_back
    return found


def values(frame: FrameType) -> list[Any]:
    """The values of a frame's locals, leaving no copy of them behind."""
    snapshot = frame.f_locals
    found = list(snapshot.values())
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        snapshot.clear()  # a function's f_locals is a copy that stays on the frame and would keep old values alive
    return found
