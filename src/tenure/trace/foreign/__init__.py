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
_KEPT = 32  # traces in the cache


def trace_of(path: Path) -> Path | None:
    """The folder of the trace that this file was made into; None if it is of no format that is known.

    Raises `TraceError` for a file that is damaged, or asks to be executed.
    """
    with path.open("rb") as file:
        head = file.read(8)
        data = b"" if not _may_be(head) else head + file.read()
    if data.startswith(_GZIP):
        data = _unpacked(data, path)
    reader = next((one for one in READERS if one.is_mine(data)), None)
    return None if reader is None else _made(reader, data, path)


def _may_be(head: bytes) -> bool:
    return head.startswith(_GZIP) or any(one.is_mine(head) for one in READERS)


def _unpacked(data: bytes, path: Path) -> bytes:
    """What gzip packed; not more than a snapshot could be, for a small file may unpack to any size."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(data, _LARGEST)
    except zlib.error as error:
        raise TraceError(f"{path} is damaged: gzip says {error}; copy it again") from None
    if not unpacker.eof:
        why = "it is cut off" if len(found) < _LARGEST else f"it unpacks to more than {_LARGEST >> 30} GiB"
        raise TraceError(f"{path} cannot be read: {why}; copy it again")
    return found


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
