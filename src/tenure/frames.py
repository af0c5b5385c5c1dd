"""Running frames, and reading their locals without leaving a copy behind."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any


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
