"""Who else reads a range of memory: arrays, memory views, DLPack capsules and tensors that share a tensor's bytes.

The garbage collector does not list NumPy arrays and capsules. They are found as what other objects and running frames
refer to. This reads the whole heap, and is asked only when a handle has been ended by hand or a report is read.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import sys
from collections.abc import Iterable
from typing import Any

from tenure import frames, heap

_CHUNK = 20_000
CAPSULE: type = type(datetime.datetime_CAPI)
# The names of capsules that nobody has taken over yet; what is before DLPack's description of the tensor in each.
_DLPACK = {b"dltensor": 0, b"dltensor_versioned": 32}
_ON_HOST = (1, 3)  # DLPack's numbers of devices whose memory has host addresses: the CPU, and pinned for CUDA
_HEAD = ctypes.c_char * 48  # DLTensor: data, device, dimensions, dtype, shape, strides, byte offset
Span = tuple[str, int, int]  # where ("host", or a device's name), first and past-the-last address


def span(device: str, start: int, nbytes: int) -> Span:
    """The span of a buffer; a host's memory is one place, whatever a framework calls it."""
    return ("host" if "cpu" in device.lower() else device.lower(), start, start + nbytes)


def readers(wanted: list[Span]) -> list[list[Any]]:
    """For each span the arrays, memory views, DLPack capsules and tensors that overlap it."""
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
    """Every array, memory view and capsule that an object or a running frame refers to."""
    numpy: Any = sys.modules.get("numpy")
    kinds = (memoryview, CAPSULE) if numpy is None else (memoryview, CAPSULE, numpy.ndarray)
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
                if kind is not CAPSULE:
                    _look([value.obj if kind is memoryview else value.base], kinds, found)
        elif (kind is dict or kind is tuple) and not gc.is_tracked(value):
            # The collector does not track what holds only arrays, since it does not track those.
            _look(value.values() if kind is dict else value, kinds, found)


def overlaps(value: Any, start: int, stop: int) -> bool:
    """Whether the bytes that this array, memory view or capsule spans overlap [start, stop)."""
    place = extent(value)
    return place is not None and place[0] < stop and start < place[1]


def extent(value: Any) -> tuple[int, int] | None:
    """The first and the past-the-last address of an array or memory view; of a DLPack capsule, those of its first byte."""
    if type(value) is CAPSULE:
        start = _exported(value)
        return None if start is None else (start, start + 1)
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


def _exported(capsule: Any) -> int | None:
    """The host address that a DLPack capsule exports; None if it is another capsule, or was taken over.

    A thread that takes the capsule over may free what it points to. So it is read in one call, which keeps the lock.
    """
    for name, skipped in _DLPACK.items():
        if _is_valid(capsule, name):
            pointers = map(skipped.__add__, map(_pointer, (capsule,), (name,)))
            try:
                head: bytes = next(map(_HEAD.__getattribute__, map(_HEAD.from_address, pointers), ("raw",)))
            except ValueError:  # taken over since it was asked
                return None
            data, device, offset = (int.from_bytes(head[a:b], sys.byteorder) for a, b in ((0, 8), (8, 12), (40, 48)))
            return data + offset if data and device in _ON_HOST else None
    return None


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
