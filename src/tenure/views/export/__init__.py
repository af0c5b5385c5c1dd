"""Traces as other tools read them: one file a format."""

from __future__ import annotations

import itertools
import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure import outputs
from tenure.errors import TraceError
from tenure.trace import folders
from tenure.trace.database import engine
from tenure.views.export import memory_viz, parquet, perfetto, plain_csv, pprof, speedscope
from tenure.views.export.base import TABLES, Job, Tell, quiet

if TYPE_CHECKING:
    from tenure.traces import Trace

# One format is one file here, and one line. Each has NAME, SUFFIX, ABOUT and `write(job)`.
FORMATS: tuple[Any, ...] = (
    perfetto,
    pprof,
    speedscope,
    memory_viz,
    plain_csv,
    parquet,
)
NAMES = tuple(one.NAME for one in FORMATS)


def export(
    trace: Trace, to: str, path: str | os.PathLike[str] | None = None, *, table: str = "buffers", tell: Tell = quiet
) -> Path:
    """Write a trace in a format, into this file or one here that is called after the trace; the file's path.

    The file is there when it is whole, and not before. `table` is which one the formats of tables write.
    """
    form = next((one for one in FORMATS if to == one.NAME), None)
    if form is None:
        raise TraceError(f"there is no format {to!r}; there are {', '.join(NAMES)}")
    if table not in TABLES:
        raise TraceError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    target = Path(path) if path is not None else _named(trace, form, table)
    if target.is_dir() or folders.is_part(target, trace.path):
        raise TraceError(f"cannot write {target}: it is {'a folder' if target.is_dir() else 'part of the trace'}")
    try:
        return _written(trace, form, target, table, tell)
    except OSError as error:
        raise TraceError(f"cannot write {target}: {error.strerror or error}") from error


def _named(trace: Trace, form: Any, table: str) -> Path:
    stem = trace.path.resolve().name.partition(".")[0] or "trace"
    whole = f"{stem}-{table}" if form.TABLES else stem
    numbered = (f"{whole}{f'-{number}' if number > 1 else ''}{form.SUFFIX}" for number in itertools.count(1))
    return next(Path(name) for name in numbered if not os.path.lexists(name))


def _written(trace: Trace, form: Any, target: Path, table: str, tell: Tell) -> Path:
    duckdb = engine()
    place = Path(tempfile.gettempdir() if outputs.is_stream(target) else os.path.realpath(target.parent))
    scratch = place / f".{target.name[:40]}-{secrets.token_hex(4)}"
    os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        form.write(Job(trace, scratch, table, tell))
        outputs.place(scratch, target)
    except duckdb.Error as error:
        raise TraceError(f"cannot write {target}: {str(error).splitlines()[0]}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return target
