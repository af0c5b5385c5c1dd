"""Query a trace with SQL (DuckDB).

The tables are `events`, `buffers` (one row per buffer), `sites` (one row per source line), `steps` and `live` (bytes
alive over time). Without TRACE, tenure reads the newest trace in this folder.

  tenure sql "select file, line, sum(bytes) from buffers group by all"
"""

from __future__ import annotations

import argparse
import sys

from tenure.cli import newest


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        nargs="?",
        help=newest.READ_ANY,
    )
    parser.add_argument(
        "query", metavar="QUERY", help="run this SQL; of several statements, separated by ';', the last one is shown"
    )
    parser.add_argument(
        "--format",
        choices=("table", "csv", "json"),
        default="table",
        help="print the rows in this format (default: table)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the rows to standard output. For a wrong query, print DuckDB's message and return 2."""
    from tenure.trace.database import engine
    from tenure.trace.reader import load
    from tenure.views.console import tables

    duckdb = engine()
    trace = load(newest.named(options.trace))
    try:
        rows = trace.sql(options.query)
    except duckdb.Error as error:
        sys.stderr.write(f"tenure: {error}\n")
        return 2
    sys.stdout.write(tables.FORMATS[options.format](rows))
    return 0
