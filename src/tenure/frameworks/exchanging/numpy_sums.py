"""A checksum at the speed of memory: the zlib's would halve the speed of writing.

The bytes are little-endian words of 64 bits, the last one filled up with zeros, in blocks of 256 KiB. The words of block
i (from 0) count 2i + 1 times; the sum is taken modulo 2^64. One wrong word always shows, and so does a lost block.
"""

from __future__ import annotations

import array
import sys
from typing import Any

BLOCK = 1 << 18  # bytes
_MASK = (1 << 64) - 1


class Sum:
    """The checksum of bytes that come block by block."""

    def __init__(self) -> None:
        self.value = 0
        self._weight = 1
        self._numpy = _numpy()
        self._words = self._numpy and self._numpy.dtype("<u8")

    def add(self, block: memoryview) -> None:
        """The next block; only the last one may be shorter."""
        if block.nbytes % 8:
            block = memoryview(bytes(block).ljust(-(-block.nbytes // 8) * 8, b"\0"))
        numpy = self._numpy
        total = int(numpy.add.reduce(numpy.frombuffer(block, self._words))) if numpy else sum(_words(block))
        self.value = (self.value + self._weight * total) & _MASK
        self._weight += 2

    def __str__(self) -> str:
        return f"{self.value:016x}"


def _words(block: memoryview) -> array.array[int]:
    words = array.array("Q", bytes(block))
    if sys.byteorder == "big":
        words.byteswap()
    return words


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:  # torch alone needs none
        return None
    return numpy
