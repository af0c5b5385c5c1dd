"""The checksum of stored tensors: the same with NumPy and without, and what it finds."""

import random

from tenure.frameworks.exchanging import numpy_sums
from tenure.frameworks.exchanging.numpy_sums import BLOCK, Sum


def told(data):
    found = Sum()
    for start in range(0, len(data), BLOCK):
        found.add(memoryview(data)[start : start + BLOCK])
    return str(found)


def test_it_is_what_the_definition_says(monkeypatch):
    rng = random.Random(1)
    for length in (0, 1, 7, 8, 9, 4096, BLOCK - 1, BLOCK, BLOCK + 3, 3 * BLOCK):
        data = rng.randbytes(length)
        whole = data + bytes(-length % 8)
        words = [int.from_bytes(whole[i : i + 8], "little") for i in range(0, len(whole), 8)]
        expected = sum(word * (2 * (i * 8 // BLOCK) + 1) for i, word in enumerate(words)) % 2**64
        assert told(data) == f"{expected:016x}"
        with monkeypatch.context() as without:
            without.setattr(numpy_sums, "_numpy", lambda: None)
            assert told(data) == f"{expected:016x}"


def test_it_finds_wrong_bits_and_blocks():
    rng = random.Random(2)
    data = bytearray(rng.randbytes(3 * BLOCK + 100))
    right = told(data)
    for _ in range(100):
        place, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        data[place] ^= bit
        assert told(data) != right
        data[place] ^= bit
    lost = bytearray(data)
    lost[BLOCK : BLOCK + 4096] = bytes(4096)
    turned = data[BLOCK : 2 * BLOCK] + data[:BLOCK] + data[2 * BLOCK :]
    assert right == told(data)
    assert right not in {told(lost), told(turned)}
