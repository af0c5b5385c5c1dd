"""The event stream of one process, as found on disk: proven against its sums before Arrow sees a byte of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from tenure import untrusted
from tenure.errors import TraceError
from tenure.trace import messages
from tenure.trace.events import COLUMNS, VERSION, beside, schema

_CHUNK = 1 << 20
_NOTHING = "{} contains no complete batch: its process exited before it could write one"
_LONGEST_SUM = 64
_LONGEST_REASON = 1000
_NEEDED = ("time", "event", "buffer", "bytes")
# The years from 1970 to 2999, and 256 TiB: sums of them stay within 64 bits.
RANGES = {"time": (0, 32_503_680_000_000_000), "last_use": (0, 32_503_680_000_000_000), "bytes": (0, 1 << 48)}
PLACE = frozenset(("file", "line", "function"))
_AGAIN = "copy it again from where it was made, or record it again"


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a trace. `complete` is whether it ended its stream; one that was killed, or still runs, did not.

    `number` is what the column `process` says: the pid, unless another stream of the trace has the same. `uses` is
    whether it tells what was used when; what was made of another tool's file may not.
    """

    number: int
    pid: int
    parent: int | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    command: tuple[str, ...]
    events: int
    complete: bool
    path: Path
    uses: bool = True
    failure: str = ""  # why it could write no more, if it could not

    @property
    def how_it_ended(self) -> str:
        """Why the stream has no end, for a sentence about the process."""
        if self.failure:
            return f"its trace could not be written any more: {self.failure}"
        return "the process was killed, or still runs"


@dataclass(frozen=True, slots=True)
class Stream:
    """A process, and how far its stream was proven."""

    process: Process
    batches: int
    fields: tuple[str, ...]
    clock: str  # which no two processes read alike
    seen: messages.Walk = field(repr=False)

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Its batches, with all columns of a trace; those that are not asked for cost nothing and are null."""
        import pyarrow as pa

        read = {"site" if name in PLACE else name for name in columns}
        wanted = [self.fields.index(name) for name in read if name in self.fields] or [0]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(wanted))
        try:
            with pa.OSFile(str(self.process.path)) as file, pa.ipc.open_stream(file, options=options) as reader:
                for _ in range(self.batches):
                    batch = reader.read_next_batch()
                    batch.validate(full=True)
                    self.check_ranges(batch)
                    yield _dressed(batch, self.process.number, places=bool(PLACE & set(columns)))
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise damaged(self.process.path, error) from error

    def check_ranges(self, batch: Any) -> None:
        """Numbers that only damage makes, and that would fail somewhere later: in a sum, or as a date."""
        import pyarrow as pa
        from pyarrow import compute

        for name, (low, high) in RANGES.items():
            if name in batch.schema.names:
                found = compute.min_max(batch.column(name).cast(pa.int64())).as_py()
                if found["min"] is not None and not low <= found["min"] <= found["max"] <= high:
                    raise TraceError(
                        f"{self.process.path} is damaged: column {name!r} contains impossible values; {_AGAIN}"
                    )


def damaged(path: Path, error: BaseException) -> TraceError:
    """What Arrow or the system says of a file that should be whole."""
    return TraceError(f"{path} cannot be read: {_line(error)}; {_AGAIN}")


@cache
def read_schema() -> Any:
    """The schema of what readers get: which process it was, the columns of the files, and the site taken apart."""
    import pyarrow as pa

    word = pa.dictionary(pa.int32(), pa.string())
    apart = [pa.field("file", word), pa.field("line", pa.int32()), pa.field("function", word)]
    return pa.schema([pa.field("process", pa.int64()), *schema(), *apart])


def _dressed(batch: Any, process: int, *, places: bool) -> Any:
    import pyarrow as pa

    found = {name: batch.column(name) for name in batch.schema.names}
    found["process"] = pa.repeat(pa.scalar(process, pa.int64()), batch.num_rows)
    if places and "site" in found:
        found |= _apart(found["site"])
    fields = read_schema()
    arrays = [found[field.name] if field.name in found else pa.nulls(batch.num_rows, field.type) for field in fields]
    return pa.record_batch(arrays, schema=fields)


def _apart(sites: Any) -> dict[str, Any]:
    """File, line and function of sites like `/home/me/train.py:31 in step`: the work goes with the words, not the rows."""
    import pyarrow as pa
    from pyarrow import compute

    pattern = r"^(?P<file>.*):(?P<line>[0-9]{1,9})(?: in (?P<function>.*))?$"
    parts = compute.extract_regex(sites.dictionary, pattern)
    found = {name: compute.struct_field(parts, name) for name in PLACE}
    found = {name: compute.if_else(compute.equal(part, ""), None, part) for name, part in found.items()}
    lines = found.pop("line").cast(pa.int32()).take(sites.indices)
    words = {name: pa.DictionaryArray.from_arrays(sites.indices, part) for name, part in found.items()}
    return {**words, "line": lines}


def open_stream(path: Path, notes: list[str]) -> Stream | None:
    """The stream in this file, as far as it is whole; None if its process wrote nothing. What is odd goes to `notes`."""
    try:
        untrusted.regular(path)
        with path.open("rb", buffering=0) as file:
            return _opened(path, file, notes)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error


def _opened(path: Path, file: BinaryIO, notes: list[str]) -> Stream | None:
    size = path.stat().st_size
    sums = beside(path, ".sums")
    if sums.exists():
        try:
            untrusted.regular(sums)
        except OSError as error:
            raise TraceError(f"{sums} cannot be read: {error.strerror or error}") from error
    summed = sums.exists() and (sums.stat().st_size > 0 or size == 0)
    lines = _summed(path, size, sums) if summed else []
    proven = (lines[-1][0] if lines else 0) if summed else size
    if proven == 0:
        notes.append(_NOTHING.format(path.name))
        return None
    try:
        # The sums are proven in a thread meanwhile. What they say comes first.
        with ThreadPoolExecutor(1, "tenure-sums") as pool:
            proof = pool.submit(_prove, path, lines, sums)
            try:
                seen = messages.walk(file, proven)
            finally:
                proof.result()
    except messages.Broken as error:
        raise TraceError(f"{path} is damaged at byte {error.at:,}: {error}; {_AGAIN}") from error
    if seen.end == 0:
        if sums.exists() and sums.stat().st_size == 0:  # the first sum follows the schema
            notes.append(_NOTHING.format(path.name))
            return None
        raise TraceError(f"{path} is not a complete trace: byte {proven:,} is inside its first message; {_AGAIN}")
    about, fields = described(path)
    stream = Stream(process_of(path, about, seen), seen.batches, fields, about.get("clock_offset_ns", ""), seen)
    if not summed:
        notes.append(f"{sums.name} is missing or empty: {path.name} was validated without it")
        for _ in stream.read(fields):
            pass
    _note_the_end(stream, seen, size, notes)
    return stream


def _note_the_end(stream: Stream, seen: messages.Walk, size: int, notes: list[str]) -> None:
    rest = size - seen.end
    if seen.closed and rest:
        notes.append(
            f"{stream.process.path.name}: {rest:,} bytes after the end of the stream (byte {seen.end:,}) were ignored"
        )
    elif not seen.closed:
        tail = f"; {rest:,} bytes after its last complete batch (byte {seen.end:,}) were ignored" if rest else ""
        why = stream.process.failure
        how = f"its trace could not be written any further: {why}" if why else "it was killed, or still runs"
        notes.append(f"process {stream.process.pid} did not close its stream: {how}{tail}")


def _summed(path: Path, size: int, sums: Path) -> list[tuple[int, int]]:
    """The ends of batches and the sums up to them, as far as they are whole."""
    found: list[tuple[int, int]] = []
    with sums.open("rb") as lines:
        for number, (end, expected) in enumerate(_sums(sums, lines), 1):
            done = found[-1][0] if found else -1
            if end <= done:
                raise TraceError(
                    f"{sums} is damaged in line {number}: byte {end:,} after byte {done:,}; {_without(sums)}"
                )
            if end > size:
                _prove(path, found, sums)  # what is wrong before is the first thing to say
                raise TraceError(
                    f"{path} is cut off: it ends at byte {size:,}, but {end:,} were written; "
                    f"{_AGAIN}, or {_without(sums)}"
                )
            found.append((end, expected))
    return found


def _prove(path: Path, summed: Sequence[tuple[int, int]], sums: Path) -> None:
    """A sum that is wrong is damage."""
    done = crc = 0
    with path.open("rb", buffering=0) as file:
        for number, (end, expected) in enumerate(summed, 1):
            crc = _crc(file, done, end, crc)
            if crc != expected:
                raise TraceError(
                    f"{path} is damaged between byte {done:,} and byte {end:,}: "
                    f"their sum does not match {sums.name}, line {number}; {_AGAIN}, or {_without(sums)}"
                )
            done = end


def _without(sums: Path) -> str:
    return f"remove {sums.name} to read the rest"


def _sums(path: Path, lines: BinaryIO) -> Iterator[tuple[int, int]]:
    """Each line's offset and sum. A last line without its end was being written when the process was killed."""
    number = 0
    while line := lines.readline(_LONGEST_SUM):
        number += 1
        if not line.endswith(b"\n") and len(line) < _LONGEST_SUM and not lines.read(1):
            return
        end, _, crc = line.rstrip(b"\n").partition(b" ")
        if not (end.isdigit() and len(crc) == 8 and set(crc) <= set(b"0123456789abcdef")):
            told = line[:40].decode("ascii", "backslashreplace").rstrip()
            raise TraceError(f"{path} is damaged in line {number}: {told!r} is not a checksum; {_without(path)}")
        yield int(end), int(crc, 16)


def _crc(file: BinaryIO, start: int, end: int, crc: int) -> int:
    file.seek(start)
    left = end - start
    while left > 0 and (chunk := file.read(min(left, _CHUNK))):
        crc = zlib.crc32(chunk, crc)
        left -= len(chunk)
    return crc


def described(path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """What the stream says of itself, and its columns."""
    import pyarrow as pa

    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            found = reader.schema
        told = {key.decode(): value.decode() for key, value in (found.metadata or {}).items()}
        names = tuple(found.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path} is damaged at byte 0, in its schema: {_line(error)}; {_AGAIN}") from error
    about = {key.removeprefix("tenure."): value for key, value in told.items() if key.startswith("tenure.")}
    if "version" not in about:
        raise TraceError(f"{path} is an Arrow stream, but no trace of tenure; open it with pyarrow or DuckDB")
    check_version(path, about["version"])
    _check_columns(path, found, names)
    return about, names


def check_version(path: Path, told: object) -> None:
    """A newer format may mean something else by the same words."""
    version = whole(told)
    if version is None or version < 1:
        raise TraceError(f"{path} is damaged: {str(told)[:40]!r} is not a version of the trace format; {_AGAIN}")
    if version > VERSION:
        raise TraceError(
            f"{path} is of format version {version}, this tenure reads up to {VERSION}; upgrade with: "
            "pip install --upgrade tenure"
        )


def _check_columns(path: Path, found: Any, names: tuple[str, ...]) -> None:
    for name in _NEEDED:
        if name not in names:
            raise TraceError(f"{path} is not a trace: it has no column {name!r}; {_AGAIN}")
    if len(set(names)) != len(names):
        raise TraceError(f"{path} is damaged at byte 0: two of its columns have the same name; {_AGAIN}")
    for name in set(COLUMNS) & set(names):
        kind, expected = found.field(name).type, schema().field(name).type
        if kind != expected:
            raise TraceError(f"{path} is damaged at byte 0: column {name!r} is {kind}, not {expected}; {_AGAIN}")


def process_of(path: Path, about: dict[str, str], seen: messages.Walk) -> Process:
    """The process that a stream says it is of."""
    pid = whole(about.get("pid"))
    if pid is None:
        raise TraceError(f"{path} is damaged at byte 0: it does not name its process; {_AGAIN}")
    return Process(
        number=pid,
        pid=pid,
        parent=whole(about.get("parent")),
        rank=whole(about.get("rank")),
        local_rank=whole(about.get("local_rank")),
        world_size=whole(about.get("world_size")),
        command=command(about.get("command")),
        events=seen.rows,
        complete=seen.closed,
        path=path,
        uses=about.get("uses") != "unknown",
        failure="" if seen.closed else failure(path),
    )


def failure(path: Path) -> str:
    """Why the process of this stream could write no more; empty if it did not say."""
    try:
        with beside(path, ".reason").open("rb") as file:
            text = file.read(_LONGEST_REASON).decode(errors="replace")
    except OSError:
        return ""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def whole(told: object) -> int | None:
    """A number that somebody wrote, if it is a usual one."""
    text = str(told)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 and not isinstance(told, bool) else None


def command(told: str | None) -> tuple[str, ...]:
    """The command line as it was told, empty if it makes no sense."""
    try:
        words = json.loads(told or "[]")
    except (ValueError, RecursionError):
        return ()
    return tuple(map(str, words)) if isinstance(words, list) else ()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
