"""Say what a trace shows: how much was alive when, and what made the peak."""

from __future__ import annotations

import argparse
import sys


def prepare(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("trace", metavar="TRACE", help="the folder of a trace, or one .arrows file of it")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to say it (default: text)")


def run(options: argparse.Namespace) -> int:
    """Write the report to standard output."""
    from tenure.trace.reader import load
    from tenure.analysis.summary import summary
    from tenure.views.console import report

    found = summary(load(options.trace))
    if options.format == "json":
        sys.stdout.write(report.as_json(found) + "\n")
    else:
        report.write(found, sys.stdout)
    return 0
