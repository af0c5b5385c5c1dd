"""The object store's bytes as a reader's own: shared until the reader writes, and then a copy of that page.

Ray maps its object store into every process of the node, writable, and only calls it read-only. torch has no read-only
tensors, and TensorFlow has operations that write to what they are given: through them one reader could change what all
others read. So the same pages are mapped once more, privately. The file behind them has no name; the raylet has it open.
Where it cannot be had (another system, a raylet of another user), frameworks that would write get a copy.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Arena:
    """A file of the object store, where it is mapped in this process."""

    start: int
    end: int
    offset: int
    device: int
    number: int
    path: str

    def current(self) -> bool:
        """Return whether the same file is still mapped there."""
        try:
            return str(Path(f"/proc/self/map_files/{self.start:x}-{self.end:x}").readlink()) == self.path
        except OSError:
            return False


_last: Arena | None = None
_files: dict[tuple[int, int], int | None] = {}  # open for good, so that their numbers are not given again


def own(data: memoryview) -> memoryview | None:
    """Return bytes of the object store as a private, writable map; None where that is not possible."""
    from tenure.frameworks.exchanging.numpy import address
    from tenure.sharing.store.file.maps import private

    if not data.nbytes:
        return None
    start = address(data)
    arena = _found(start)
    if arena is None:
        return None
    file = (arena.device, arena.number)
    if file not in _files:
        _files[file] = _opened(file)
    fd = _files[file]
    if fd is None:
        return None
    place = arena.offset + start - arena.start
    before = place % mmap.ALLOCATIONGRANULARITY
    try:
        pages = private(fd, before + data.nbytes, place - before)
    except OSError:
        return None
    return memoryview(pages)[before : before + data.nbytes]


def _found(address: int) -> Arena | None:
    """Return the file that is mapped at an address."""
    global _last
    last = _last
    if last is not None and last.start <= address < last.end and last.current():
        return last
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        span, _, offset, device, number, *path = line.split(maxsplit=5)
        start, end = (int(one, 16) for one in span.split("-"))
        if start <= address < end:
            major, minor = (int(one, 16) for one in device.split(":"))
            name = path[0] if path else ""
            _last = Arena(start, end, int(offset, 16), os.makedev(major, minor), int(number), name)
            return _last
    return None


def _opened(file: tuple[int, int]) -> int | None:
    """Return a descriptor of the object store's file, from a raylet that has it open."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() != "raylet":
                continue
            for one in (process / "fd").iterdir():
                status = one.stat()
                if (status.st_dev, status.st_ino) == file:
                    return os.open(one, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it has ended, or is another user's
            continue
    return None
