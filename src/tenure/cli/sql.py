"""Ask a trace in SQL (DuckDB).

There are the tables `events`, `buffers` (one row a buffer), `sites` (one row a line of source), `steps` and `live` (the
bytes alive over time), such as:

  tenure sql TRACE "select file, line, sum(bytes) as bytes from buffers group by all order by bytes desc limit 10"
"""

from __future__ import annotations

import argparse
import sys


def prepare(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="the folder of a trace, one .arrows file of it, a CUDA snapshot of PyTorch, a memory profile of JAX",
    )
    parser.add_argument("query", metavar="QUERY", help="one statement, or several with ';' between: the last is shown")
    parser.add_argument(
        "--format", choices=("table", "csv", "json"), default="table", help="how to show the rows (default: table)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the rows to standard output; a bad query is wrong usage, and DuckDB says best what is wrong with it."""
    from tenure.trace.database import engine
    from tenure.trace.reader import load
    from tenure.views.console import tables

    duckdb = engine()
    trace = load(options.trace)
    try:
        rows = trace.sql(options.query)
    except duckdb.Error as error:
        sys.stderr.write(f"tenure: {error}\n")
        return 2
    sys.stdout.write(tables.FORMATS[options.format](rows))
    return 0
