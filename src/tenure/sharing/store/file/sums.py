"""Checksums of stored tensors. Each says how it was taken, so that entries of every age can be checked.

`xxh3:` is XXH3 of 64 bits, which sees every order and runs at two thirds of the speed at which memory is read.
`crc32:` is taken where xxhash is not installed, at a sixth. One without a name is of an earlier tenure: see
`numpy_sums`, which is faster than both and does not see the order within 256 KiB.
"""

from __future__ import annotations

import zlib
from typing import Any, Protocol

from tenure.frameworks.exchanging import numpy_sums

BLOCK = numpy_sums.BLOCK


class Sum(Protocol):
    """A checksum of bytes that come block by block; its text is what the index keeps."""

    def add(self, block: memoryview) -> None:
        """Add the next block; only the last one may be shorter than `BLOCK`."""


class Unknown(Exception):
    """A checksum that cannot be taken here; the text says why."""


class _Xxh3:
    def __init__(self) -> None:
        import xxhash

        self._state: Any = xxhash.xxh3_64()

    def add(self, block: memoryview) -> None:
        self._state.update(block)

    def __str__(self) -> str:
        return f"xxh3:{self._state.hexdigest()}"


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def add(self, block: memoryview) -> None:
        self._value = zlib.crc32(block, self._value)

    def __str__(self) -> str:
        return f"crc32:{self._value:08x}"


def begun() -> Sum:
    """Return the checksum for a new entry."""
    try:
        return _Xxh3()
    except ImportError:
        return _Crc32()


def like(checksum: str) -> Sum:
    """Return a checksum of the same kind as this one. Raise `Unknown` for a kind that is not available here."""
    kind, named, _ = checksum.partition(":")
    if not named:
        return numpy_sums.Sum()
    if kind == "crc32":
        return _Crc32()
    if kind != "xxh3":
        raise Unknown(f"its checksum is of a kind that this tenure does not know ({kind[:20]!r})")
    try:
        return _Xxh3()
    except ImportError:
        raise Unknown("its checksum needs xxhash, which is not installed: pip install xxhash") from None


def of(data: memoryview, found: Sum) -> str:
    """Return the checksum of bytes that are in memory."""
    for start in range(0, data.nbytes, BLOCK):
        found.add(data[start : start + BLOCK])
    return str(found)
