"""The messages of an Arrow stream, looked at from outside: which are whole, and what they would take to unpack.

Arrow trusts the lengths it finds in a file. Here they are held against the file first, so that a damaged one leads to
words and not to an allocation of a terabyte.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

_MARK = b"\xff\xff\xff\xff"
_END = _MARK + bytes(4)
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_LARGEST_HEADER = 1 << 24
# Of a message, packed or not. The writer's batches are a tenth of it at most.
_LARGEST_BODY = 1 << 27
_LARGEST_WORDS = 1 << 27  # of all messages of words together, which are in memory at once
# What was recorded packs to a third or so. LZ4 goes to 1/255, so a small file could claim to be a very large trace.
_MOST_PACKED = 100
_SMALL = 1 << 20  # bytes, of which it does not matter
_LEAST_ROW = 4  # bytes: a word has an offset, a row of a batch more
_LENGTH = struct.Struct("<q").unpack_from


class Broken(Exception):
    """Bytes that are no message; `at` is where it should begin."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


@dataclass(frozen=True, slots=True)
class Walk:
    """What a stream holds: the end of its last whole batch, how many batches and rows, and how it ends."""

    end: int
    batches: int
    rows: int
    closed: bool
    rest: int = 0  # bytes after the last whole batch
    # Where each batch begins and ends; the same of each message of words, and whether it adds to those before (1).
    places: array[int] = field(default_factory=lambda: array("q"), repr=False)
    words: array[int] = field(default_factory=lambda: array("q"), repr=False)
    head: int = 0  # where the schema ends
    # What each batch takes in memory.
    sizes: array[int] = field(default_factory=lambda: array("q"), repr=False)


def walk(file: BinaryIO, limit: int) -> Walk:
    """Look at the messages in the first `limit` bytes; a last one that is not whole is left out."""
    end = batches = rows = head = vocabulary = 0
    closed = False
    places, words, sizes = array("q"), array("q"), array("q")
    for at, kind, length, size in _messages(file, limit):
        if (at == 0) != (kind == _SCHEMA):
            raise Broken(at, "the stream does not begin with its schema" if at == 0 else "a second schema")
        closed = kind == 0
        batches += kind == _BATCH
        rows += length if kind == _BATCH else 0
        head = file.tell() if kind == _SCHEMA else head
        if kind == _BATCH:
            places.extend((at, file.tell()))
            sizes.append(size)
        elif kind == _DICTIONARY:
            vocabulary += size
            if vocabulary > _LARGEST_WORDS:
                raise Broken(at, f"strings that claim to unpack to {vocabulary:,} bytes")
            words.extend((at, file.tell(), length))
        if kind != _DICTIONARY:  # the words of a batch are of use only with it
            end = file.tell()
    return Walk(end, batches, rows, closed, limit - end, places, words, head, sizes)


def _messages(file: BinaryIO, limit: int) -> Iterator[tuple[int, int, int, int]]:
    """Where each whole message begins, its kind (0: the end of the stream), its rows, and its size in memory.

    The file stands behind it.

    Of words it is told instead whether they add to those before.
    """
    at = 0
    while at + 8 <= limit:
        file.seek(at)
        lead = file.read(8)
        if not lead.startswith(_MARK):
            raise Broken(at, "no Arrow message begins here")
        if lead == _END:
            yield at, 0, 0, 0
            return
        size = int.from_bytes(lead[4:], "little", signed=True)
        if not 0 < size <= _LARGEST_HEADER:
            raise Broken(at, f"a message header of {size:,} bytes")
        if at + 8 + size > limit:
            return
        try:
            header = _Header(file.read(size))
        except (struct.error, IndexError) as error:
            raise Broken(at, "an invalid message header") from error
        body = at + 8 + size
        if header.body < 0 or header.body > _LARGEST_BODY:
            raise Broken(at, f"a message of {header.body:,} bytes")
        if body + header.body > limit:
            return
        unpacked = _check(file.read(header.body), header, at)
        at = body + header.body
        file.seek(at)
        yield body - 8 - size, header.kind, header.delta if header.kind == _DICTIONARY else header.rows, unpacked


class _Header:
    """The few fields of a message's flatbuffer that say how large things are."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        (root,) = struct.unpack_from("<I", data, 0)
        self.kind = self._number(root, 1, "<B")
        self.body = self._number(root, 3, "<q")
        self.rows = 0
        self.buffers: list[tuple[int, int]] = []
        self.packed = False
        self.delta = 0
        if self.kind not in (_SCHEMA, _DICTIONARY, _BATCH):
            raise struct.error
        table = self._table(root, 2)
        if self.kind == _DICTIONARY:
            self.delta = self._number(table, 2, "<B")
            table = self._table(table, 1)
        if self.kind != _SCHEMA:
            self.rows = self._number(table, 0, "<q")
            self.packed = self._field(table, 3) > 0
            self.buffers = self._pairs(table, 2)

    def _field(self, table: int, number: int) -> int:
        """Where a field of a table is; 0 if it is left out."""
        (back,) = struct.unpack_from("<i", self._data, table)
        start = table - back
        (size,) = struct.unpack_from("<H", self._data, start)
        if 4 + 2 * number >= size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, start + 4 + 2 * number)
        return table + offset if offset else 0

    def _number(self, table: int, number: int, form: str) -> int:
        place = self._field(table, number)
        return int(struct.unpack_from(form, self._data, place)[0]) if place else 0

    def _table(self, table: int, number: int) -> int:
        place = self._field(table, number)
        if not place:
            raise struct.error
        return place + int(struct.unpack_from("<I", self._data, place)[0])

    def _pairs(self, table: int, number: int) -> list[tuple[int, int]]:
        place = self._table(table, number)
        (count,) = struct.unpack_from("<I", self._data, place)
        if place + 4 + 16 * count > len(self._data):
            raise struct.error
        flat = struct.unpack_from(f"<{2 * count}q", self._data, place + 4)
        return list(zip(flat[::2], flat[1::2], strict=True))


def _check(body: bytes, header: _Header, at: int) -> int:
    """Every buffer must lie in its message, and must not claim to unpack to more than a batch can be; what they take."""
    total = 0
    for offset, length in header.buffers:
        if not (0 <= offset <= header.body and 0 <= length <= header.body - offset):
            raise Broken(at, "a buffer that is outside of its message")
        if header.packed and length >= 8:
            unpacked = _LENGTH(body, offset)[0]
            total += max(length, unpacked)
        else:
            total += length
    claims = f"a batch that claims {header.rows:,} rows and to unpack to {total:,} bytes"
    if total > _LARGEST_BODY or not 0 <= header.rows * _LEAST_ROW <= total:
        raise Broken(at, claims)
    if header.kind == _BATCH and total > max(_SMALL, _MOST_PACKED * header.body):
        raise Broken(at, f"{claims}, {total // max(1, header.body):,} times its size")
    return total
