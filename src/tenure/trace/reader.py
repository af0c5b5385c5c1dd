"""Reading a trace back: what it holds, as tables. Nothing of a trace is executed, and no framework is imported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from tenure import untrusted
from tenure.errors import TraceError
from tenure.trace.database import CHOSEN, Database, reader
from tenure.trace.streams import Process, Stream, check_version, open_stream, read_schema

_LARGEST_META = 1 << 24
_NEXT = 10_000_000_000  # added for each stream before with the same pid: 10000000123 is the second 123
# Who is alive is found with few columns; only of those the rest is gathered.
_ALIVE = f"""
    with moments as ({{}}),
    lives as (
        select process, buffer, min(time) filter (event = 'birth') as born, max(time) filter (event = 'end') as ended
        from events where buffer is not null group by process, buffer
    ),
    chosen as materialized (
        select process, buffer from lives join moments using (process)
        where born <= moment and (ended is null or ended > moment)
    )
    {CHOSEN}"""  # noqa: S608  our own words
_AT_STEP = "select process, max(ended) as moment from steps where step = {} group by process"
_AFTER = """
    select process, (select min(time) from events) + to_microseconds({}) as moment from events group by process"""
_AT_TIME = "select process, timestamptz '{}' as moment from events group by process"


def load(path: str | PathLike[str]) -> Recorded:
    """Open a trace: its folder, the stream of one process, or a file of another tool (see `tenure.trace.foreign`).

    Raises `TraceError` for what is none, or is damaged.
    """
    place = Path(path)
    try:
        home = _home(place)
        files = files_of(home)
    except TraceError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise TraceError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    notes: list[str] = []
    meta = _meta((home if home.is_dir() else home.parent) / "meta.json", notes)
    notes += map(str, meta.get("notes") or ())
    streams = [stream for file in files if (stream := open_stream(file, notes)) is not None]
    if not streams:
        raise TraceError(f"{place} contains no events: its process exited before it could write any; record it again")
    return Recorded(place, meta, numbered(streams), notes)


def _home(place: Path) -> Path:
    """Where the trace lies: there, or where a file of another tool was made into one."""
    if place.is_dir() or place.suffix == ".arrows" or not place.is_file():
        return place
    from tenure.trace import foreign

    return foreign.trace_of(place) or place


def files_of(place: Path) -> list[Path]:
    """The streams of a trace."""
    if not place.exists():
        raise TraceError(f"{place} does not exist; name the folder of a trace")
    if not place.is_dir():
        if place.suffix != ".arrows":
            raise TraceError(
                f"{place} is not a trace; name the folder of a trace, one of its .arrows files, "
                "a CUDA snapshot of PyTorch, or a memory profile of JAX"
            )
        return [place]
    files = sorted(place.glob("*.arrows"))
    if not files:
        raise TraceError(f"{place} contains no trace: there is no events-….arrows in it; name the folder of a trace")
    return files


def _meta(path: Path, notes: list[str]) -> dict[str, Any]:
    """The description of the run; a trace can be read without it, but not if it says what we do not understand."""
    try:
        found = untrusted.document(path, _LARGEST_META)
    except FileNotFoundError:
        notes.append("meta.json is missing: the trace is read without it")
        return {}
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        why = f"{error} " if isinstance(error, json.JSONDecodeError) else f"({error}) it "
        raise TraceError(f"{path} is damaged: {why}is not JSON; remove it to read the trace without it") from error
    if not isinstance(found, dict) or found.get("format") != "tenure trace":
        raise TraceError(f"{path} does not describe a trace; name the folder of a trace, or remove the file")
    check_version(path, found.get("version"))
    if not isinstance(found.get("notes") or [], list):
        raise TraceError(f"{path} is damaged: its notes are not a list; remove it to read the trace without it")
    return found


def numbered(streams: Sequence[Stream]) -> list[Stream]:
    """The streams with numbers of their own; one that is there twice is a copy.

    Programs that follow each other by exec have one pid, and so may processes of two machines.
    """
    seen: dict[int, list[Stream]] = {}
    found = []
    for stream in streams:
        same = seen.setdefault(stream.process.pid, [])
        for other in same:
            if other.clock == stream.clock:
                names = f"{stream.process.path} and {other.process.path.name}"
                raise TraceError(f"{names} are the same stream twice; remove one, or load one of them by its name")
        number = stream.process.pid + len(same) * _NEXT
        found.append(replace(stream, process=replace(stream.process, number=number)))
        same.append(stream)
    return found


class Recorded:
    """The record of one run as tables. Tables are Arrow tables; docs/trace-format.md lists their columns."""

    def __init__(self, path: Path, meta: dict[str, Any], streams: Sequence[Stream], notes: Sequence[str]) -> None:
        self.path = path
        self.meta = meta
        self.notes = tuple(notes)
        self.streams = tuple(streams)

    @property
    def processes(self) -> tuple[Process, ...]:
        """The recorded processes, in the order of their files."""
        return tuple(stream.process for stream in self.streams)

    def __repr__(self) -> str:
        events = sum(process.events for process in self.processes)
        return f"<{type(self).__name__} {self.path}: {len(self.processes)} processes, {events:,} events>"

    def events(self, columns: Sequence[str] | None = None) -> Any:
        """Return all events as an Arrow `RecordBatchReader`, one process after another; `read_all()` returns a table.

        Arguments:
            columns: The columns to read. Default: all.
        """
        import pyarrow as pa

        whole = read_schema()
        chosen = whole.names if columns is None else list(columns)
        unknown = [name for name in chosen if name not in whole.names]
        if unknown:
            raise ValueError(f"events have no column {unknown[0]!r}; they have {', '.join(whole.names)}")
        narrow = pa.schema([whole.field(name) for name in chosen])
        return reader((batch.select(chosen) for batch in self._batches(chosen)), narrow)

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        for stream in self.streams:
            yield from stream.read(columns)

    def database(self) -> Database:
        """Return a DuckDB database of this trace for several queries: `with trace.database() as db: db.run(…)`."""
        return Database(self.streams)

    def sql(self, query: str) -> Any:
        """Run a query over the views `events`, `buffers`, `sites`, `steps` and `live`, and return an Arrow table.

        Example:
            trace.sql("select file, line, sum(bytes) from buffers group by all")
        """
        with self.database() as db:
            return db.run(query)

    def buffers(self) -> Any:
        """Return one row per buffer: what it was, where it was allocated, what used it last, where and why it was freed."""
        return self.sql("select * from buffers order by process, born, buffer")

    def steps(self) -> Any:
        """Return one row per step and process: when it began and ended, and what was allocated in it."""
        return self.sql("select * from steps order by process, ended")

    def live_bytes(self) -> Any:
        """Return the bytes alive after each change: on the device that changed, and in `total`."""
        return self.sql("select * from live order by time, device")

    def alive(self, at: int | float | datetime) -> Any:
        """Return the buffers that were alive at a point in time, the largest first.

        Arguments:
            at: The end of a step (int), seconds after the start (float), or a datetime.
        """
        return self.sql(_ALIVE.format(_moment(at)) + " order by bytes desc, process, buffer")


def _moment(at: int | float | datetime) -> str:
    """SQL for the moment that is meant, by process: a step ends at another time in each."""
    if isinstance(at, bool) or not isinstance(at, int | float | datetime):
        raise TypeError(f"a step (int), seconds (float) or a datetime is needed, not {type(at).__name__}")
    if isinstance(at, int):
        return _AT_STEP.format(at)
    if isinstance(at, float):
        return _AFTER.format(round(at * 1e6))
    return _AT_TIME.format(at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00"))
