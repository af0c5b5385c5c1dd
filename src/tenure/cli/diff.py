"""Compare two traces, or two points in time of one trace.

tenure shows what is new, gone, larger or smaller: in two traces at their peaks, or at the times that you pass with --at
and --to. With one trace, it compares two times of it. Without A, it reads the two newest traces in this folder, or the
newest one if you pass --at or --to.

  tenure diff BEFORE AFTER
  tenure diff TRACE --at 10 --to 20      after step 10 and after step 20
  tenure diff TRACE --at 1.5s --to 3s    after 1.5 and 3 seconds
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path

from tenure.cli import newest


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("before", metavar="A", nargs="?", help=newest.READ)
    parser.add_argument("after", metavar="B", nargs="?", help="compare A with this trace (default: A itself)")
    parser.add_argument(
        "--at", type=_moment, metavar="TIME", help="take A at this step, or at a time such as 1.5s (default: its peak)"
    )
    parser.add_argument("--to", type=_moment, metavar="TIME", help="take B at this step or time (default: its peak)")
    parser.add_argument(
        "--device", help="compare memory of this device (default: the accelerator with the highest peak)"
    )
    parser.add_argument(
        "--format", choices=("full", "concise", "json"), default="full", help="print in this format (default: full)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the differences to standard output."""
    from tenure.errors import TraceError
    from tenure.traces import load
    from tenure.views.formats.text import clean

    moments = options.at is not None or options.to is not None
    if options.before is None and not moments:
        options.before, options.after = newest.two()
    elif options.after is None and not moments:
        raise TraceError("cannot compare one trace with itself; name another trace, or two times: --at 10 --to 20")
    options.before = newest.named(options.before)
    before = load(options.before)
    after = None if options.after is None else load(options.after)
    found = before.diff(after, at=options.at, to=options.to, device=options.device)
    if options.format == "json":
        sys.stdout.write(json.dumps(dataclasses.asdict(found), indent=1) + "\n")
        return 0
    lines = str(found).splitlines()
    if options.format == "concise":
        changes = (*found.new, *found.grown, *found.shrunk, *found.gone)
        lines = [f"{change.name}: {change.bytes:+,} bytes" for change in changes]
    here = f"{Path.cwd()}{os.sep}"
    sys.stdout.write("".join(clean(line.replace(f" {here}", " ").removeprefix(here)) + "\n" for line in lines))
    return 0


def _moment(text: str) -> int | float:
    """Return a step, or seconds."""
    try:
        return float(text.removesuffix("s")) if text.endswith("s") or "." in text else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a step nor a time; use 10 or 1.5s") from None
