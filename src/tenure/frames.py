"""Running frames, and reading their locals without leaving a copy behind."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")


def running() -> Iterator[FrameType]:
    """Iterate over the executing frames of all threads, tenure's own included.

    Do not keep them in a list: a list of frames in a local of one of them would keep them all, and what they refer to.
    """
    mine = threading.get_ident()
    for ident in list(current()):
        frame = current().get(ident)
        while frame is not None:
            yield frame
            frame = frame.f_back if ident == mine else outer(frame)


def current() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by the thread's number."""
    return _uncollected(sys._current_frames)


def outer(frame: FrameType) -> FrameType | None:
    """Return the caller's frame, also of a frame of another thread."""
    return _uncollected(lambda: frame.f_back)


def _uncollected(read: Callable[[], _T]) -> _T:
    """Read frames of other threads with the collector off.

    CPython creates the frame objects in this call. Before Python 3.12, an allocation could start a collection; finalizers then
    let the other thread run on, and CPython read frames that had returned in the meantime.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return read()
    finally:
        if collecting:
            gc.enable()


def values(frame: FrameType) -> list[Any]:
    """The values of a frame's locals, leaving no copy of them behind."""
    return list(_named(frame).values())


def references(frame: FrameType) -> list[Any]:
    """What the frame itself refers to: not a module's or class's variables, nor a closure's, which objects on the heap hold."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []
    in_cells = {*frame.f_code.co_cellvars, *frame.f_code.co_freevars}
    return [value for name, value in _named(frame).items() if name not in in_cells]


def _named(frame: FrameType) -> dict[str, Any]:
    snapshot = frame.f_locals
    found = dict(snapshot)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        snapshot.clear()  # a function's f_locals is a copy that stays on the frame and would keep old values alive
    return found
