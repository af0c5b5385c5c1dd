"""Running frames, and reading their locals without leaving a copy behind."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any


def running() -> Iterator[FrameType]:
    """The frames of every thread that are executing now, tenure's own included.

    To be iterated, not kept: a list of frames in the local of one of them would keep them all, and what they hold.
    """
    for ident in list(sys._current_frames()):
        frame = sys._current_frames().get(ident)
        while frame is not None:
            yield frame
            frame = frame.f_back


def values(frame: FrameType) -> list[Any]:
    """The values of a frame's locals, leaving no copy of them behind."""
    snapshot = frame.f_locals
    found = list(snapshot.values())
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        snapshot.clear()  # a function's f_locals is a copy that stays on the frame and would keep old values alive
    return found
