"""Pickles written piece by piece: what is in a list need not be in memory together.

Only plain data, and only what torch's viewer in the browser, which has an unpickler of its own, understands: protocol 4.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

BEGIN = b"\x80\x04"
END = b"."
EMPTY_DICT, MARK, SETITEMS = b"}", b"(", b"u"
_EMPTY_LIST, _APPENDS, _MEMOIZE, _GET, _LONG_GET = b"]", b"e", b"\x94", b"h", b"j"
_SHORT_TEXT, _TEXT, _BYTE, _TWO, _FOUR, _LONG = b"\x8c", b"X", b"K", b"M", b"J", b"\x8a\x08"
_PIECE = 1000  # values that are added to a list at a time
_HELD = 1 << 14  # pieces of code that wait to be written


class Shared:
    """A value that is in many places: it is made, by its key, when it is first written."""

    __slots__ = ("key", "make")

    def __init__(self, key: Any, make: Callable[[Any], Any]) -> None:
        self.key = key
        self.make = make


class Writer:
    """Writes values into a file. Texts and `Shared` values are written once, and then go by number."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._codes: list[bytes] = []
        self._known: dict[Any, bytes] = {}

    def raw(self, code: bytes) -> None:
        """Write instructions as they are."""
        self._codes.append(code)

    def flush(self) -> None:
        """Give to the file what waits."""
        self._file.write(b"".join(self._codes))
        self._codes.clear()

    def values(self, items: Iterable[Any]) -> None:
        """Write a list of values."""
        self._codes.append(_EMPTY_LIST)
        count = 0
        for count, item in enumerate(items, 1):
            if count % _PIECE == 1:
                self._codes.append(MARK)
            self.value(item)
            if count % _PIECE == 0:
                self._codes.append(_APPENDS)
        if count % _PIECE:
            self._codes.append(_APPENDS)

    def value(self, value: Any) -> None:
        """Write a value of plain data; an iterator is a list."""
        kind = type(value)
        if kind is int:
            self._codes.append(_integer(value))
        elif kind is str:
            known = self._known.get(value)
            self._codes.append(self._text(value) if known is None else known)
        elif kind is dict:
            self._codes.append(EMPTY_DICT + MARK)
            for key, one in value.items():
                self.value(key)
                self.value(one)
            self._codes.append(SETITEMS)
            if len(self._codes) > _HELD:
                self.flush()
        elif kind is Shared:
            key = Shared, value.key
            known = self._known.get(key)
            if known is not None:
                self._codes.append(known)
            else:
                self.value(value.make(value.key))
                self._codes.append(self._remember(key))
        elif kind is bool:
            self._codes.append(b"\x88" if value else b"\x89")
        elif isinstance(value, list | Iterator):
            self.values(value)
        else:
            raise TypeError(f"{kind.__name__} is not plain data")

    def _text(self, value: str) -> bytes:
        data = value.encode(errors="backslashreplace")
        head = _SHORT_TEXT + bytes((len(data),)) if len(data) < 256 else _TEXT + struct.pack("<I", len(data))
        return head + data + self._remember(value)

    def _remember(self, key: Any) -> bytes:
        """Return the opcode that numbers the value just written."""
        number = len(self._known)
        self._known[key] = _GET + bytes((number,)) if number < 256 else _LONG_GET + struct.pack("<I", number)
        return _MEMOIZE


def _integer(value: int) -> bytes:
    if 0 <= value < 256:
        return _BYTE + bytes((value,))
    if 0 <= value < 65536:
        return _TWO + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return _FOUR + struct.pack("<i", value)
    return _LONG + value.to_bytes(8, "little", signed=True)
