"""Files of other tools, read as traces: one module a format.

Such a file is written as a trace once, into the cache, and read from there as any other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tenure import cache
from tenure.errors import TraceError
from tenure.trace.foreign import cuda_snapshot, jax_profile

# One format is one file here, and one line. Each has NAME, `is_mine(data)` and `make(data, path, folder, moment)`.
READERS: tuple[ModuleType, ...] = (
    cuda_snapshot,
    jax_profile,
)
_GZIP = b"\x1f\x8b"
_LARGEST = 1 << 34  # bytes, unpacked
_MADE = re.compile(r"[0-9a-f]{24}")
# Such files pack to a tenth. gzip goes to 1/1032, so a small file could claim to be a very large one.
_MOST_PACKED = 100
_SMALL = 1 << 20  # bytes, of which it does not matter
_AT_ONCE = 1 << 22  # bytes
_HEAD = 1 << 16  # bytes of a packed file, of which the first eight come out
_KEPT = 32  # traces in the cache


def trace_of(path: Path) -> Path | None:
    """The folder of the trace that this file was made into; None if it is of no format that is known.

    Raises `TraceError` for a file that is damaged, or asks to be executed.
    """
    with path.open("rb") as file:
        head = file.read(8)
        packed = head.startswith(_GZIP)
        if packed:
            # Enough to see of which format it is: what is of none is not unpacked, whatever its size.
            head = b"".join(_unpacked(head + file.read(_HEAD), path, whole=False))[:8]
            file.seek(0)
        reader = next((one for one in READERS if one.is_mine(head)), None)
        if reader is None:
            return None
        data = b"".join(_unpacked(file.read(), path)) if packed else head + file.read()
    return _made(reader, data, path)


def _unpacked(data: bytes, path: Path, *, whole: bool = True) -> Iterator[bytes]:
    """What gzip packed, piece by piece; not more than a file of ours could be."""
    unpacker = zlib.decompressobj(wbits=31)
    most = min(_LARGEST, max(_SMALL, _MOST_PACKED * len(data)))
    size = 0
    try:
        while data and not unpacker.eof:
            part = unpacker.decompress(data, _AT_ONCE if whole else 8)
            yield part
            if not whole:
                return
            size += len(part)
            if size > most:
                raise TraceError(f"{path} is not read: it unpacks to more than {most:,} bytes, which no such file does")
            data = unpacker.unconsumed_tail
    except zlib.error as error:
        raise TraceError(f"{path} is damaged: gzip reports {error}; copy it again") from None
    if not unpacker.eof:
        raise TraceError(f"{path} cannot be read: it is cut off; copy it again")


def _made(reader: ModuleType, data: bytes, path: Path) -> Path:
    """The trace, from the cache if the same was read before."""
    moment = path.stat().st_mtime_ns // 1000
    recipe = "".join(file.read_text(encoding="utf-8") for file in sorted(Path(__file__).parent.glob("*.py")))
    stamp = hashlib.sha256(data)
    stamp.update(f"{moment}{recipe}".encode())
    try:
        kept = cache.folder("foreign")
    except OSError as error:
        raise TraceError(
            f"{path} cannot be made into a trace: {error}; name another folder in TENURE_CACHE_DIR"
        ) from error
    folder = kept / stamp.hexdigest()[:24]
    if (folder / "meta.json").exists():
        with contextlib.suppress(OSError):
            os.utime(folder)
        return folder
    scratch = Path(tempfile.mkdtemp(prefix="new-", dir=kept))
    try:
        reader.make(data, path, scratch, moment)
        with contextlib.suppress(OSError):  # another process may have made it meanwhile
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _forget(kept)
    return folder


def _forget(kept: Path) -> None:
    """Only so many are kept, those that were opened last."""
    with contextlib.suppress(OSError):
        known = sorted(
            (one for one in kept.iterdir() if _MADE.fullmatch(one.name)), key=lambda one: -one.stat().st_mtime
        )
        for old in known[_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
