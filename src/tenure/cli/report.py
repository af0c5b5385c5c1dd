"""Say what a trace shows: what made the peak, what leaked, what was held past its last use.

The exit code is 1 if there are faults; advice about the peak is no fault.
"""

from __future__ import annotations

import argparse
import sys

FORMATS = ("full", "concise", "json", "sarif", "github")


def prepare(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument(
        "trace",
        metavar="TRACE",
        help="the folder of a trace, one .arrows file of it, a CUDA snapshot of PyTorch, a memory profile of JAX",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="full",
        help="how to say it: as a page of text (default), a line a finding, JSON, SARIF, or GitHub's annotations",
    )


def run(options: argparse.Namespace) -> int:
    """Write the report to standard output."""
    from tenure.analysis.summary import summary
    from tenure.trace import autopsies
    from tenure.traces import load
    from tenure.views import formats
    from tenure.views.console import report

    trace = load(options.trace)
    findings = trace.findings()
    if options.format == "json":
        sys.stdout.write(report.as_json(summary(trace, trace.scanned, trace.peak()), findings) + "\n")
    elif options.format == "full":
        ends = autopsies.heard(trace.path) if trace.path.is_dir() else []
        report.write(summary(trace, trace.scanned, trace.peak()), sys.stdout, findings, ends)
    else:
        sys.stdout.write(formats.FORMATS[options.format](findings))
    return 1 if any(report.is_fault(finding) for finding in findings) else 0
