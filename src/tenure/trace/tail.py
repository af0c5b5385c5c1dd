"""A stream that is still being written, followed as it grows: each batch is proven by its sum, and read once.

The sums come after the bytes they are of, so whatever a sum names is there. Nothing is asked of the process that writes.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenure import untrusted
from tenure.descriptors import ReadFile
from tenure.errors import TraceError
from tenure.trace import messages
from tenure.trace.events import beside
from tenure.trace.streams import Process, damaged, described, process_of

_SUM = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{8})")
_AT_ONCE = 1 << 24  # bytes: whoever comes late to a long run sees how it goes


class Tail:
    """One process's stream. `process` is None until it has written; `behind` are bytes that were written and not read."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        self.process: Process | None = None
        self.behind = 0
        self._columns = columns
        untrusted.regular(path)
        self._file = ReadFile(path)
        self.inode = path.stat().st_ino
        self._sums: ReadFile | None = None
        self._summed = 0  # bytes of sums that were read
        self._unfinished = b""  # of a line of sums
        self._waiting: list[tuple[int, int]] = []
        self._done = self._crc = self._rows = 0
        self._head = b""
        self._fed = _Fed()
        self._reader: Any = None

    @property
    def complete(self) -> bool:
        """Whether the process has ended its stream."""
        return self.process is not None and self.process.complete

    def close(self) -> None:
        """Let go of the files."""
        self._file.close()
        if self._sums is not None:
            self._sums.close()

    def read(self) -> list[Any]:
        """The batches that came since, as many as are read at once. Raises `TraceError` for what is damaged."""
        import pyarrow as pa

        try:
            self._look()
            piece = self._piece()
            if not piece:
                return []
            seen = self._seen(piece)
            self._fed.data += piece
            found = [self._next() for _ in range(seen.batches)]
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise damaged(self.path, error) from error
        self._rows += seen.rows
        assert self.process is not None
        self.process = replace(self.process, events=self._rows, complete=seen.closed)
        return found

    def _look(self) -> None:
        """What the sums say by now."""
        if self._sums is None:
            try:
                self._sums = ReadFile(beside(self.path, ".sums"))
            except FileNotFoundError:
                if self._file.size():
                    raise TraceError(f"{self.path} has no file of checksums, so it cannot be followed") from None
                return
        fresh = self._sums.read(max(self._sums.size() - self._summed, 0), self._summed)
        self._summed += len(fresh)
        *lines, self._unfinished = (self._unfinished + fresh).split(b"\n")
        for line in lines:
            match = _SUM.fullmatch(line)
            last = self._waiting[-1][0] if self._waiting else self._done
            if match is None or int(match[1]) < last:
                raise TraceError(
                    f"{beside(self.path, '.sums')} is damaged: {line[:40]!r} is not a checksum that can follow"
                )
            if int(match[1]) > last:
                self._waiting.append((int(match[1]), int(match[2], 16)))
        self.behind = self._waiting[-1][0] - self._done if self._waiting else 0

    def _piece(self) -> bytes:
        """The next bytes, proven."""
        parts = []
        length = taken = 0
        for end, expected in self._waiting:
            data = self._file.read(end - self._done - length, self._done + length)
            self._crc = zlib.crc32(data, self._crc)
            length += len(data)
            if self._done + length != end or self._crc != expected:
                raise TraceError(f"{self.path} is damaged before byte {end:,}: it does not match its sums")
            parts.append(data)
            taken += 1
            if length >= _AT_ONCE:
                break
        del self._waiting[:taken]
        self._done += length
        self.behind -= length
        return b"".join(parts)

    def _seen(self, piece: bytes) -> messages.Walk:
        """What the next bytes hold; lengths that cannot be are found here, before Arrow believes them."""
        whole = self._head + piece
        try:
            seen = messages.walk(io.BytesIO(whole), len(whole))
        except messages.Broken as error:
            raise TraceError(f"{self.path} is damaged before byte {self._done:,}: {error}") from error
        if seen.rest:
            raise TraceError(f"{self.path} is damaged before byte {self._done:,}: a batch is incomplete")
        if self.process is None:
            about, fields = described(self.path)
            self.process = process_of(self.path, about, seen)
            self._head = piece[: seen.head]
            self._fields = [fields.index(name) for name in self._columns if name in fields]
        return seen

    def _next(self) -> Any:
        import pyarrow as pa

        if self._reader is None:
            options = pa.ipc.IpcReadOptions(included_fields=sorted(self._fields), use_threads=False)
            self._reader = pa.ipc.open_stream(pa.PythonFile(self._fed, mode="r"), options=options)
        batch = self._reader.read_next_batch()
        batch.validate()
        return batch


class _Fed:
    """A file that holds what was proven and not yet read: Arrow never asks for more, for it is asked for whole batches."""

    closed = False

    def __init__(self) -> None:
        self.data = bytearray()

    def read(self, count: int = -1) -> bytes:
        taken = bytes(self.data if count < 0 else self.data[:count])
        del self.data[: len(taken)]
        return taken

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False
