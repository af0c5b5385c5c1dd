"""Write a trace as other tools read it: Perfetto, pprof, Speedscope, PyTorch's memory viewer, CSV, Parquet.

  tenure export TRACE --to perfetto                 then open the file in https://ui.perfetto.dev
  tenure export TRACE --to pprof -o peak.pb.gz      then: pprof -http=: peak.pb.gz
  tenure export TRACE --to parquet --table events

The file is called after the trace if -o does not say otherwise, with a number if there is one already. Its name is
written to standard output.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TextIO

from tenure.views.export.base import Tell

_EVERY = 0.3  # seconds
_CLEAR = "\r\x1b[K"


def prepare(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    from tenure.views.export import FORMATS, NAMES
    from tenure.views.export.base import TABLES

    told = "; ".join(f"{one.NAME}: {one.ABOUT}" for one in FORMATS)
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="the folder of a trace, one .arrows file of it, a CUDA snapshot of PyTorch, a memory profile of JAX",
    )
    parser.add_argument("--to", choices=NAMES, required=True, metavar="FORMAT", help=told)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE if it is there already")
    parser.add_argument(
        "--table", choices=TABLES, default="buffers", help="which table csv and parquet write (default: buffers)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the file, and say its name."""
    from tenure import outputs
    from tenure.traces import load
    from tenure.views.formats.text import clean

    if options.output is not None:
        outputs.check(
            Path(options.output),
            lambda data: False,
            force=options.force,
            spare=(Path(options.trace),),
            hint=", or pass -f",
        )
    with progress(sys.stderr) as tell:
        trace = load(options.trace)
        path = trace.export(options.to, options.output, table=options.table, tell=tell)
    sys.stdout.write(f"{clean(str(path))}\n")
    return 0


@contextmanager
def progress(out: TextIO) -> Iterator[Tell]:
    """A line that says how many rows are done and how long it took; on a terminal only, and gone in the end."""
    if not out.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda rows: None
        return
    done = [0]
    ended = threading.Event()

    def tell(rows: int) -> None:
        done[0] += rows

    def show() -> None:
        start = time.monotonic()
        for turn in count():
            if ended.wait(_EVERY):
                return
            seconds = time.monotonic() - start
            told = f", {done[0]:,} rows" if done[0] else ""
            out.write(f"{_CLEAR}{'|/-'[turn % 3]} exporting{told}, {seconds:.0f} s")
            out.flush()

    thread = threading.Thread(target=show, name="tenure-progress", daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        ended.set()
        thread.join()
        out.write(_CLEAR)
        out.flush()
