"""Who else reads a range of memory: arrays, memory views and tensors that were made from a tensor without a copy.

NumPy arrays are unknown to the garbage collector, so they are found as what other objects and running frames refer
to. This reads the whole heap, and is asked only when a handle has been ended by hand or a report is read.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from typing import Any

from tenure import frames, heap

_CHUNK = 20_000
Span = tuple[str, int, int]  # where ("host", or a device's name), first and past-the-last address


def span(device: str, start: int, nbytes: int) -> Span:
    """The span of a buffer; a host's memory is one place, whatever a framework calls it."""
    return ("host" if "cpu" in device.lower() else device.lower(), start, start + nbytes)


def readers(wanted: list[Span]) -> list[list[Any]]:
    """For each span the arrays, memory views and tensors that overlap it."""
    from tenure import frameworks

    found: list[list[Any]] = [[] for _ in wanted]
    if not wanted:
        return found
    for array in arrays():
        place = extent(array)
        for index, asked in enumerate(wanted):
            if place is not None and _overlap(("host", *place), asked):
                found[index].append(array)
    for framework in frameworks.awake():
        for tensor in framework.live():
            for buffer in framework.buffers(tensor):
                for index, asked in enumerate(wanted):
                    if buffer.span is not None and _overlap(buffer.span, asked):
                        found[index].append(tensor)
    return found


def arrays() -> list[Any]:
    """Every array and memory view that an object or a running frame refers to."""
    numpy: Any = sys.modules.get("numpy")
    kinds = (memoryview,) if numpy is None else (memoryview, numpy.ndarray)
    found: dict[int, Any] = {}
    objects = heap.objects()
    for index in range(0, len(objects), _CHUNK):
        _look(heap.referents(objects[index : index + _CHUNK]), kinds, found)
    objects.clear()  # a frame that is looked at next may be this one
    for frame in frames.running():
        _look(frames.values(frame), kinds, found)
    return list(found.values())


def _look(values: Iterable[Any], kinds: tuple[type, ...], found: dict[int, Any]) -> None:
    for value in values:
        kind = type(value)
        if issubclass(kind, kinds):  # not isinstance: it would run the __class__ of proxies
            if id(value) not in found:
                found[id(value)] = value
                _look([value.obj if kind is memoryview else value.base], kinds, found)
        elif (kind is dict or kind is tuple) and not gc.is_tracked(value):
            # The collector does not track what holds only arrays, since it does not track those.
            _look(value.values() if kind is dict else value, kinds, found)


def overlaps(value: Any, start: int, stop: int) -> bool:
    """Whether the bytes that this array or memory view spans lie in [start, stop)."""
    place = extent(value)
    return place is not None and place[0] < stop and start < place[1]


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


def _overlap(one: Span, other: Span) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
