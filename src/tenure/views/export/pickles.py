"""Pickles written piece by piece: what is in a list need not be in memory together.

Only plain data, and only what torch's viewer in the browser, which has an unpickler of its own, understands: protocol 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

BEGIN = b"\x80\x04"
END = b"."
EMPTY_LIST, EMPTY_DICT, MARK, APPENDS, SETITEMS = b"]", b"}", b"(", b"e", b"u"
_MEMOIZE, _GET, _LONG_GET = b"\x94", b"h", b"j"
_PIECE = 1000  # values that are added to a list at a time


class Writer:
    """Writes values into a file. What was remembered is written once, and then by its number."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._known: dict[Any, int] = {}

    def raw(self, code: bytes) -> None:
        """Write instructions as they are."""
        self._file.write(code)

    def values(self, items: Iterable[Any]) -> None:
        """A list of values, as they come."""
        self.raw(EMPTY_LIST)
        count = 0
        for item in items:
            self.raw(MARK if count % _PIECE == 0 else b"")
            self.value(item)
            count += 1
            self.raw(APPENDS if count % _PIECE == 0 else b"")
        self.raw(APPENDS if count % _PIECE else b"")

    def known(self, key: Any) -> bool:
        """Write what was remembered by this key; False if nothing was."""
        number = self._known.get(key)
        if number is None:
            return False
        self.raw(_GET + bytes((number,)) if number < 256 else _LONG_GET + struct.pack("<I", number))
        return True

    def remember(self, key: Any) -> None:
        """Remember the value that was just written by this key."""
        self._known[key] = len(self._known)
        self.raw(_MEMOIZE)

    def value(self, value: Any) -> None:
        """A value of plain data; an iterator is a list. Text and `Shared` values are written once."""
        if isinstance(value, Shared):
            if not self.known(value):
                self.value(value.value())
                self.remember(value)
        elif isinstance(value, str):
            if not self.known(value):
                data = value.encode(errors="backslashreplace")
                self.raw(
                    (b"\x8c" + bytes((len(data),)) if len(data) < 256 else b"X" + struct.pack("<I", len(data))) + data
                )
                self.remember(value)
        elif isinstance(value, bool):
            self.raw(b"\x88" if value else b"\x89")
        elif isinstance(value, int):
            self.raw(_integer(value))
        elif isinstance(value, dict):
            self.raw(EMPTY_DICT + MARK)
            for key, one in value.items():
                self.value(key)
                self.value(one)
            self.raw(SETITEMS)
        elif isinstance(value, list | Iterator):
            self.values(value)
        else:
            raise TypeError(f"{type(value).__name__} is no plain data")


class Shared:
    """A value that is in many places, made when it is first written."""

    __slots__ = ("_key", "_make")

    def __init__(self, key: Any, make: Any) -> None:
        self._key = key
        self._make = make

    def value(self) -> Any:
        """The value."""
        return self._make(self._key)

    def __hash__(self) -> int:
        return hash((Shared, self._key))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shared) and other._key == self._key


def _integer(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes((value,))
    if 0 <= value < 65536:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(8, "little", signed=True)
    return b"\x8a\x08" + data
