"""The files of a trace: one folder a run, one Arrow stream a process, and the sums that prove what was written."""

from __future__ import annotations

import contextlib
import itertools
import zlib
from pathlib import Path
from typing import Any

from tenure.descriptors import OwnFile
from tenure.trace.digest import Digest
from tenure.trace.events import beside, schema

_BUFFER = 1 << 20
_MOST_ROWS = 1 << 17  # of a batch, which a reader holds in memory; a multiple of 8, for the bits of the columns
_ROOM = 400  # bytes for the reason why a stream was abandoned


class Stream:
    """The event stream of one process. Whole batches reach the file; a batch that was cut off is passed over by readers.

    Beside it goes a file of sums: one line a batch, with where it ends and the checksum of its bytes. A third file keeps
    room for the reason why no more could be written, which is needed where the disk is full.
    """

    def __init__(self, folder: Path, name: str, about: dict[str, str]) -> None:
        self.path, self._file = _new_file(folder, name)
        try:
            self._begin(about)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, about: dict[str, str]) -> None:
        import pyarrow as pa

        described = schema().with_metadata({f"tenure.{key}": value for key, value in about.items()})
        self._sums = OwnFile(beside(self.path, ".sums"))
        self._reason = OwnFile(beside(self.path, ".reason"))
        self._reason.write(b" " * _ROOM)
        # zstd would make it three fifths as large, and take four times as long, for which the user's program has to wait.
        options = pa.ipc.IpcWriteOptions(compression="lz4", emit_dictionary_deltas=True, use_threads=False)
        # Arrow writes some hundred small pieces a batch. Each would have to wait for the interpreter, and halt it.
        self._out = pa.BufferedOutputStream(pa.PythonFile(self._file, mode="w"), _BUFFER)
        self._writer = pa.ipc.new_stream(self._out, described, options=options)
        self._digest = Digest()
        self._seal()

    def write(self, batch: Any) -> None:
        """Append a batch; raises OSError if the disk will not take it."""
        for start in range(0, batch.num_rows, _MOST_ROWS) or (0,):
            part = batch.slice(start, _MOST_ROWS)
            self._writer.write_batch(part)
            self._seal()
            self._digest.add(part)

    def _seal(self) -> None:
        self._out.flush()
        self._file.flush()
        self._sums.write(f"{self._file.size} {self._file.sum:08x}\n".encode())

    def close(self) -> None:
        """Write the end of the stream."""
        self._writer.close()
        self._seal()
        with contextlib.suppress(OSError):  # without it the analyses read the events
            self._digest.save(self.path, self._file.size, self._file.sum)
        self._reason.remove()
        self.abandon()

    def abandon(self, reason: str = "") -> None:
        """Close the files as they are, whatever is still in them, and keep the reason for readers."""
        if reason:
            text = reason.encode(errors="backslashreplace")[:_ROOM]
            with contextlib.suppress(OSError):
                self._reason.replace(text + b" " * (_ROOM - len(text)))
        for file in (self._file, self._sums, self._reason):
            with contextlib.suppress(OSError):  # that it cannot be written any more is why it is abandoned
                file.close()


def _new_file(folder: Path, name: str) -> tuple[Path, _Summing]:
    """A file of this name, or one with a number behind it: a process that calls exec is two programs with one id."""
    for number in itertools.count(1):
        path = folder / (f"{name}.arrows" if number == 1 else f"{name}-{number}.arrows")
        try:
            return path, _Summing(path)
        except FileExistsError:
            continue
    raise AssertionError


class _Summing:
    """A file that knows its length and the checksum of all that was written."""

    closed = False

    def __init__(self, path: Path) -> None:
        self._file = OwnFile(path)
        self.sum = 0
        self._pending: list[bytes] = []

    def write(self, data: Any) -> int:
        self._pending.append(bytes(data))
        return len(self._pending[-1])

    def flush(self) -> None:
        data = b"".join(self._pending)
        self._pending.clear()
        self._file.write(data)
        self.sum = zlib.crc32(data, self.sum)

    @property
    def size(self) -> int:
        """How many bytes were written."""
        return self._file.size

    def tell(self) -> int:
        return self.size + sum(map(len, self._pending))

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
