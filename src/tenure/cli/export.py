"""Export a trace for other tools, such as Perfetto or pprof.

  tenure export --to perfetto               then open it in ui.perfetto.dev
  tenure export --to pprof -o peak.pb.gz    then: pprof -http=: peak.pb.gz
  tenure export TRACE --to parquet --table events

Without TRACE, tenure reads the newest trace in this folder. Without -o, the file is named after the trace, with a
number if that name is taken. tenure prints its name to standard output.
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

from tenure.cli import newest
from tenure.views.export.base import Tell

_EVERY = 0.3  # seconds
_CLEAR = "\r\x1b[K"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from tenure.views.export import FORMATS, NAMES
    from tenure.views.export.base import TABLES

    parser.epilog = "formats:\n\n" + "\n".join(f"  {one.NAME:<13} {one.ABOUT}" for one in FORMATS)
    parser.add_argument(
        "trace",
        metavar="TRACE",
        nargs="?",
        help=newest.READ_ANY,
    )
    parser.add_argument("--to", choices=NAMES, required=True, metavar="FORMAT", help="write this format, see below")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE if it exists")
    parser.add_argument(
        "--table", choices=TABLES, default="buffers", help="write this table as csv or parquet (default: buffers)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the file, and print its name."""
    from tenure import outputs
    from tenure.traces import load
    from tenure.views.formats.text import clean

    options.trace = newest.named(options.trace)
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
    """Show how many rows are written and how long that took: on a terminal only, and cleared at the end."""
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
