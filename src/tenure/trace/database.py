"""A trace as DuckDB sees it: `events` straight from the streams, and what follows from them as views."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tenure.errors import TraceError
from tenure.trace.streams import Stream, read_schema

# DuckDB takes a stream for one row, as it cannot know, and would keep all of it in memory to join it with anything;
# joins are done as they are written, the left side going through.
_SETTINGS = (
    "timezone='UTC'",
    "python_enable_replacements=false",
    "disabled_optimizers='join_order,build_side_probe_side'",
)

_EVENTS = "create view events as select * from stream"

# One pass over the events. Columns that only births have need no filter; `uses` and `last_…` are running totals.
BUFFERS = """
    select process, buffer,
        any_value(framework) as framework, any_value(device) as device, any_value(bytes) as bytes,
        any_value(shape) as shape, any_value(dtype) as dtype,
        coalesce(arg_max(kind, time) filter (event <> 'birth'), any_value(kind) filter (event = 'birth'),
            -- What nobody marked: there from the beginning to the end, or come and gone.
            case when bool_or(event = 'end') or any_value(step) filter (event = 'birth') > 0 then 'temporary'
            else 'constant' end) as kind,
        min(time) filter (event = 'birth') as born,
        any_value(op) as op,
        any_value(site) filter (event = 'birth') as site,
        any_value(file) filter (event = 'birth') as file,
        any_value(line) filter (event = 'birth') as line,
        any_value(function) filter (event = 'birth') as function,
        any_value(stack) filter (event = 'birth') as stack,
        any_value(step) filter (event = 'birth') as step,
        any_value(scope) filter (event = 'birth') as scope,
        any_value(thread) filter (event = 'birth') as thread,
        coalesce(max(uses), 0)::uinteger as uses,
        max(last_use) as last_use,
        arg_max(last_op, last_use) as last_op,
        arg_max(last_site, last_use) as last_site,
        arg_max(last_stack, last_use) as last_stack,
        max(time) filter (event = 'end') as ended,
        any_value(site) filter (event = 'end') as end_site,
        any_value(file) filter (event = 'end') as end_file,
        any_value(line) filter (event = 'end') as end_line,
        any_value(function) filter (event = 'end') as end_function,
        any_value(stack) filter (event = 'end') as end_stack,
        any_value(cause) as cause,
        any_value(step) filter (event = 'end') as end_step
    from {} where buffer is not null group by process, buffer having bool_or(event = 'birth')"""
_BUFFERS = "create view buffers as " + BUFFERS.format("stream")
# Of those in a table `chosen`: to gather all that is known of every buffer only to pass it over would be slow.
CHOSEN = BUFFERS.format("(select stream.* from stream semi join chosen using (process, buffer))")

_STEPS = """create view steps as
    with turns as (
        select process, step, time as ended, lag(time) over (partition by process order by time) as before
        from stream where event = 'step'
    ),
    begun as (select process, min(time) as began from stream group by process),
    made as (select process, step, count(*) as births, sum(bytes)::bigint as bytes
             from stream where event = 'birth' group by process, step)
    select turns.process, turns.step, coalesce(before, began) as began, ended,
        coalesce(births, 0) as births, coalesce(made.bytes, 0) as bytes
    from turns join begun using (process) left join made using (process, step)"""

_SITES = """create view sites as
    select site, file, line, function, count(*) as births, sum(bytes)::bigint as bytes,
        count(*) filter (ended is null) as alive, coalesce(sum(bytes) filter (ended is null), 0)::bigint as alive_bytes,
        {} as drag
    from buffers group by site, file, line, function"""
_DRAG = "coalesce(sum(bytes::double * (epoch_us(ended) - epoch_us(coalesce(last_use, born)))) / 1e6, 0)"
_UNKNOWN = "null::double"  # where nothing is told of uses

# What is born and ends within one microsecond has no order, so a moment has one sum.
_LIVE = """create view live as
    with lives as materialized (select device, bytes, born, ended from buffers where bytes > 0),
    changes as (
        select born as time, device, bytes from lives
        union all select ended, device, -bytes from lives where ended is not null
    ),
    moments as (select time, device, sum(bytes) as change from changes group by time, device)
    select time, device, (sum(change) over (partition by device order by time))::bigint as bytes,
        (sum(change) over (order by time))::bigint as total
    from moments"""


# Before, COPY and exports end the process (SIGSEGV) when they read from Python, and to_arrow_reader is missing.
OLDEST = (1, 5, 1)


def engine() -> Any:
    """The module duckdb. Raises `TraceError` where it is missing, or so old that it would end the process."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise TraceError(f"queries and exports need DuckDB ({error}); {_install()}") from None
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", str(duckdb.__version__))
    if numbers is not None and tuple(map(int, numbers.groups())) < OLDEST:
        raise TraceError(f"DuckDB {duckdb.__version__} is too old: it crashes on exports; {_install()}")
    return duckdb


def _install() -> str:
    return f"install it with: pip install 'duckdb>={'.'.join(map(str, OLDEST))}'"


class Database:
    """DuckDB over the streams of a trace; nothing is copied before a query asks for it, and only the columns it needs."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._source = _Source(streams)
        self._drag = _DRAG if all(stream.process.uses for stream in streams) else _UNKNOWN

    def __enter__(self) -> Self:
        duckdb = engine()
        self._temporary = tempfile.TemporaryDirectory(prefix="tenure-", ignore_cleanup_errors=True)
        self._db = duckdb.connect()
        place = str(Path(self._temporary.name)).replace("'", "''")
        for setting in (*_SETTINGS, f"temp_directory='{place}'"):
            self._db.execute(f"set {setting}")
        # It goes to standard output, into the answer. In a notebook without ipywidgets it is off, and to set it raises.
        if self._db.execute("select current_setting('enable_progress_bar')").fetchall() == [(True,)]:
            self._db.execute("set enable_progress_bar=false")
        self._db.register("stream", self._source)
        for view in (_EVENTS, _BUFFERS, _STEPS, _SITES.format(self._drag), _LIVE):
            self._db.execute(view)
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._temporary.cleanup()

    def run(self, query: str) -> Any:
        """The answer as an Arrow table; of several statements, the last one's. Raises `duckdb.Error` for a bad one."""
        import pyarrow as pa

        self._source.columns = self._needed(query)
        with self._blame():
            found = self._db.sql(query)
            return pa.table({}) if found is None else found.to_arrow_table()

    def stream(self, query: str, rows: int = 1 << 16) -> Iterator[Any]:
        """The answer as Arrow batches, of which there is one in memory at a time."""
        self._source.columns = self._needed(query)
        with self._blame():
            yield from self._db.sql(query).to_arrow_reader(rows)

    def save(self, query: str, path: Path, options: str) -> None:
        """Write the answer to a file as DuckDB's COPY does, without keeping it in memory."""
        self._source.columns = self._needed(query)
        place = str(path).replace("'", "''")
        with self._blame():
            self._db.execute(f"copy ({query}) to '{place}' ({options})")

    @contextmanager
    def _blame(self) -> Iterator[None]:
        """What is wrong with the trace is said, and not what DuckDB makes of it."""
        import pyarrow as pa

        duckdb = engine()
        try:
            yield
        except (duckdb.Error, pa.ArrowException):
            if self._source.error is not None:
                raise self._source.error from None
            raise

    def _needed(self, query: str) -> tuple[str, ...]:
        """The columns that the plan of a query reads; all of them if that cannot be told."""
        duckdb = engine()
        try:
            (statement,) = self._db.extract_statements(query)
            if re.match(r"\s*(select|from|with|create\s+temp\s+table)\b", statement.query, re.IGNORECASE) is None:
                return _all()
            ((_, plan),) = self._db.execute(f"explain (format json) {statement.query}").fetchall()
            read = set(_scanned(json.loads(plan)))
        except (duckdb.Error, ValueError):
            return _all()
        return tuple(name for name in _all() if name in read)


def _scanned(nodes: Any) -> Iterator[str]:
    """The columns in the scans of a plan. A scan that does not name its columns reads them all."""
    for node in nodes:
        if "ARROW_SCAN" in node["name"]:
            told = node["extra_info"].get("Projections", list(_all()))
            yield from [told] if isinstance(told, str) else told
        yield from _scanned(node["children"])


def _all() -> tuple[str, ...]:
    return tuple(read_schema().names)


class _Source:
    """The streams one after another, from the beginning each time somebody asks."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self.columns = _all()
        self.error: TraceError | None = None

    def __arrow_c_schema__(self) -> Any:
        return read_schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return reader(self._batches(), read_schema()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[Any]:
        try:
            for stream in self._streams:
                yield from stream.read(self.columns)
        except TraceError as error:  # which would reach the caller as text in another error
            self.error = error
            raise


def reader(batches: Iterator[Any], schema: Any) -> Any:
    """An Arrow reader over batches."""
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(schema, batches)
