"""Protocol buffers as they lie in files: the few kinds of fields that profiles and Perfetto's traces are made of."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_WHOLE = (1 << 64) - 1
_LONGEST = 10  # bytes of a number


def varint(value: int) -> bytes:
    """A number; one below zero as its 64 bits are."""
    value &= _WHOLE
    if value < 128:
        return bytes((value,))
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """A field that holds a number."""
    return varint(field << 3) + varint(value)


def real(field: int, value: float) -> bytes:
    """A field that holds a double."""
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field that holds numbers, one after another."""
    return message(field, *map(varint, values))


def text(field: int, value: str) -> bytes:
    """A field that holds text. What UTF-8 cannot say is spelled out."""
    return message(field, value.encode(errors="backslashreplace"))


def message(field: int, *parts: bytes) -> bytes:
    """A field that holds a message, made of its fields."""
    whole = b"".join(parts)
    return varint(field << 3 | _LENGTH) + varint(len(whole)) + whole


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: their numbers, and a number or bytes each. Raises ValueError for what is none."""
    at = 0
    while at < len(data):
        key, at = _read(data, at)
        kind = key & 7
        if not key >> 3:
            raise ValueError(f"no field begins at byte {at:,}")
        if kind == _VARINT:
            value, at = _read(data, at)
            yield key >> 3, value
            continue
        if kind == _LENGTH:
            length, at = _read(data, at)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"byte {at:,} begins a field of an unknown kind")
        if at + length > len(data):
            raise ValueError(f"it is cut off in a field at byte {at:,}")
        yield key >> 3, data[at : at + length]
        at += length


def numbers(value: int | memoryview) -> Iterator[int]:
    """The numbers of a repeated field: it holds one, or all of them packed."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        one, at = _read(value, at)
        yield one


def signed(value: int) -> int:
    """A number whose highest bit is its sign."""
    return value - (1 << 64) if value >> 63 else value


def _read(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(at, min(at + _LONGEST, len(data))):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _WHOLE, place + 1
        shift += 7
    raise ValueError(f"no complete number at byte {at:,}")
