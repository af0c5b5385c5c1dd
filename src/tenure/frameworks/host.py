"""Who else reads a range of host memory: arrays and memory views that were made from a tensor without a copy.

NumPy arrays are unknown to the garbage collector, so they are found as what other objects and running frames refer
to. This reads the whole heap, and is asked only when a handle has been ended by hand or a report is read.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from tenure import frames

_CHUNK = 20_000


def viewers(start: int, stop: int, without: frozenset[int] = frozenset()) -> list[Any]:
    """The arrays and memory views that overlap [start, stop), except those whose id is in `without`."""
    numpy: Any = sys.modules.get("numpy")
    kinds = (memoryview,) if numpy is None else (memoryview, numpy.ndarray)
    found: dict[int, Any] = {}

    def look(values: list[Any]) -> None:
        for value in values:
            # Not isinstance: it would run the __class__ of proxies.
            if issubclass(type(value), kinds) and id(value) not in without and overlaps(value, start, stop):
                found[id(value)] = value
                base = getattr(value, "base", None)
                if base is not None:
                    look([base])

    objects = gc.get_objects()
    for index in range(0, len(objects), _CHUNK):
        look(gc.get_referents(*objects[index : index + _CHUNK]))
    for frame in frames.running(everywhere=True):
        look(frames.values(frame))
    return list(found.values())


def overlaps(value: Any, start: int, stop: int) -> bool:
    """Whether the bytes that this array or memory view spans lie in [start, stop)."""
    span = extent(value)
    return span is not None and span[0] < stop and start < span[1]


def extent(value: Any) -> tuple[int, int] | None:
    """The first and the past-the-last address of an array or memory view."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, memoryview):
        try:
            value = numpy.asarray(value)
        except (ValueError, TypeError, BufferError, NotImplementedError):
            return None  # released, or of a format NumPy does not know: not made from a tensor
    if value.dtype.hasobject or value.size == 0:
        return None
    low, high = numpy.lib.array_utils.byte_bounds(value)
    return int(low), int(high)
