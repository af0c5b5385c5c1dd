"""Show leaks, peak memory, and how to lower it, from a trace.

Without TRACE, tenure reads the newest trace in this folder.

Exit code 0: no error or warning, although there may be advice; 1: errors or warnings; 2: wrong usage, or the trace
cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tenure.cli import newest

if TYPE_CHECKING:
    from tenure.traces import Trace

FORMATS = ("full", "concise", "json", "sarif", "github")


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        nargs="?",
        help=newest.READ_ANY,
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="full",
        help="print in this format (default: full); concise is one line per finding",
    )


def run(options: argparse.Namespace) -> int:
    """Write the report to standard output."""
    from tenure import untrusted
    from tenure.traces import load

    trace = load(newest.named(options.trace))
    with untrusted.reading(trace.source):
        return _write(trace, options)


def _write(trace: Trace, options: argparse.Namespace) -> int:
    from tenure.analysis.summary import summary
    from tenure.trace import autopsies
    from tenure.views import formats
    from tenure.views.console import outcome, report

    findings = trace.findings()
    if options.format == "json":
        sys.stdout.write(report.as_json(summary(trace, trace.scanned, trace.peak()), findings) + "\n")
    elif options.format == "full":
        ends = autopsies.heard(trace.path) if trace.path.is_dir() else []
        report.write(summary(trace, trace.scanned, trace.peak()), sys.stdout, findings, ends)
    else:
        sys.stdout.write(formats.FORMATS[options.format](findings))
    return 1 if any(outcome.is_fault(finding) for finding in findings) else 0
