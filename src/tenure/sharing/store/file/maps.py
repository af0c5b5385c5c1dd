"""Files in memory without a copy: pages are read when they are touched, and writing to them changes no file."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from typing import Any


def private(fd: int, length: int, offset: int = 0) -> mmap.mmap:
    """Return a private map of a file (copy on write) without a file descriptor: a model has thousands of tensors."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, length, flags=mmap.MAP_PRIVATE, offset=offset, trackfd=False)
    # Before, Python's maps kept one each. So the file is laid over a map of nothing, which Python takes away in the end.
    place = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(place))
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    got = _libc_mmap()(address, length, protection, mmap.MAP_PRIVATE | _MAP_FIXED, fd, offset)
    if got != address:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return place


_MAP_FIXED = 0x10  # on Linux, macOS and the BSDs alike


@functools.cache
def _libc_mmap() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    return function
