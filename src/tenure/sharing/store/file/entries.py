"""One tensor in one safetensors file: written whole or not at all, read by mapping it.

The header is filled up with spaces, so that the bytes begin at a multiple of 64: every framework takes them as they are.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure import untrusted
from tenure.frameworks.exchange import DTYPES, Host
from tenure.sharing.store.base import Doer
from tenure.sharing.store.file import maps, sums

ENDING = ".safetensors"
PART = ".part"  # not yet whole
_ALIGNED = 64
_MANY = 4 << 20  # bytes: a thread is worth its start
_AT_ONCE = 64 << 20  # bytes in one call: between two of them a signal is answered
_LONGEST = 100 << 20  # of a header, in safetensors itself
_OURS = re.compile(r"\.v\d+-[0-9a-f]{12}\.safetensors$")
_FORMATS = {"torch": "pt", "tensorflow": "tf", "jax": "flax", "numpy": "np"}


class Damaged(Exception):
    """A file is not what the index says; the text says how."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole file that has no place in the store yet."""

    path: Path
    start: int
    checksum: str


def named(name: str, version: int, unique: str) -> str:
    """Return a file name that people recognise, and that is never used twice."""
    words = re.sub(r"[^A-Za-z0-9_.-]+", "_", name.replace("/", "."))[:80].lstrip(".-") or "_"
    return f"{words}.v{version}-{unique}{ENDING}"


def is_ours(file: str) -> bool:
    """Return whether a store named this file. Other files belong to the user."""
    return _OURS.search(file) is not None


def part(writer: str, unique: str) -> str:
    """Return the name of a file while that user writes it."""
    return f"{writer}-{unique}{PART}"


def writer(file: str) -> str:
    """Return the process that writes an incomplete file."""
    return file.rpartition("-")[0]


def written(path: Path, name: str, host: Host, by: Doer, *, durable: bool) -> Draft:
    """Write a tensor to a new file; with `durable` also through to the disk. Raises OSError, and leaves no file then."""
    head = _header(name, host, by)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            _write(fd, memoryview(head))
            checksum = _written(fd, host.data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:  # an interrupt too: half a file is nobody's
        with contextlib.suppress(OSError):  # the first trouble is told; what is left, the next process clears up
            path.unlink()
        raise
    return Draft(path, len(head), checksum)


def _written(fd: int, data: memoryview) -> str:
    """Write these bytes; their checksum, which another processor takes meanwhile where there are many."""
    if data.nbytes < _MANY:
        _write(fd, data)
        return _sum(data)
    with ThreadPoolExecutor(1, "tenure-sum") as pool:
        checksum = pool.submit(_sum, data)
        _write(fd, data)
        return checksum.result()


def _sum(data: memoryview) -> str:
    return sums.of(data, sums.begun())


def _header(name: str, host: Host, by: Doer) -> bytes:
    known = {
        "format": _FORMATS[host.framework],
        "tenure.name": name,
        "tenure.framework": host.framework,
        "tenure.put": str(by.site or ""),
    }
    tensor = {"dtype": host.dtype, "shape": host.shape, "data_offsets": [0, host.data.nbytes]}
    text = json.dumps({"__metadata__": known, _key(name): tensor}, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNED)
    return len(text).to_bytes(8, "little") + text


def _key(name: str) -> str:
    return "tensor" if name == "__metadata__" else name  # which means something else in a header


def _write(fd: int, part: memoryview) -> None:
    while part.nbytes:
        part = part[os.write(fd, part[:_AT_ONCE]) :]


def mapped(path: Path, name: str, dtype: str, shape: tuple[int, ...], start: int) -> memoryview:
    """Return the bytes of a tensor, mapped. No page is read before it is used.

    Raises:
        FileNotFoundError: there is no such file.
        Damaged: it is not the file that was written.
    """
    fd = _opened(path)
    try:
        _check(fd, name, dtype, shape, start)
        whole = maps.private(fd, start + size(dtype, shape))
    finally:
        os.close(fd)
    return memoryview(whole)[start:]


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe in its place would halt us


def _check(fd: int, name: str, dtype: str, shape: tuple[int, ...], start: int) -> None:
    """Verify that size and header match the index. Otherwise a framework would read memory outside the tensor."""
    there, wanted = os.fstat(fd).st_size, start + size(dtype, shape)
    if there != wanted:
        raise Damaged(f"it has {there} bytes instead of {wanted}")
    head = os.pread(fd, start, 0)
    if int.from_bytes(head[:8], "little") != start - 8 or start > _LONGEST:
        raise Damaged("it does not begin as a safetensors file of this store")
    try:
        tensor: Any = untrusted.parsed(head[8:])[_key(name)]
        same = tensor == {"dtype": dtype, "shape": list(shape), "data_offsets": [0, wanted - start]}
    except (ValueError, KeyError, TypeError):
        raise Damaged("its header cannot be read") from None
    if not same:
        raise Damaged("its header describes another tensor")


def size(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the size of a tensor in bytes."""
    if dtype not in DTYPES:
        raise Damaged(f"its dtype {dtype!r} is unknown here")
    nbytes = DTYPES[dtype][1]
    for count in shape:
        nbytes *= count
    return nbytes


def verified(path: Path, name: str, dtype: str, shape: tuple[int, ...], start: int, checksum: str) -> None:
    """Read all bytes. Raises FileNotFoundError, or Damaged if they are not those that were written.

    They are not mapped: if the file got shorter meanwhile, to touch a page beyond its end would end this process.
    """
    fd = _opened(path)
    try:
        _check(fd, name, dtype, shape, start)
        found = sums.like(checksum)
        left, block = size(dtype, shape), memoryview(bytearray(sums.BLOCK))
        os.lseek(fd, start, os.SEEK_SET)
        while left:
            part = block[: min(left, sums.BLOCK)]
            done = 0
            while done < part.nbytes:
                got = os.readv(fd, [part[done:]])
                if not got:
                    raise Damaged("it got shorter while it was read")
                done += got
            found.add(part)
            left -= part.nbytes
    except sums.Unknown as error:
        raise Damaged(str(error)) from None
    finally:
        os.close(fd)
    if str(found) != checksum:
        raise Damaged("its bytes are not those that were put (the checksum differs)")
