"""Say what is new, gone, grown or shrunk between two traces, or two moments of one.

Two traces are compared at their peaks, or at the moments that --at and --to name; one trace is compared with itself:

  tenure diff BEFORE AFTER
  tenure diff TRACE --at 10 --to 20     (the ends of steps 10 and 20; 1.5s is a moment in seconds)
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any


def prepare(parser: argparse.ArgumentParser) -> None:
    """The arguments."""
    parser.add_argument("before", metavar="A", help="the folder of a trace, or one .arrows file of it")
    parser.add_argument("after", metavar="B", nargs="?", help="another one; A itself if not said")
    parser.add_argument(
        "--at", type=_moment, metavar="MOMENT", help="of A: a step, or seconds such as 1.5s (default: its peak)"
    )
    parser.add_argument("--to", type=_moment, metavar="MOMENT", help="of B: likewise")
    parser.add_argument("--device", help="which device (default: the accelerator with the highest peak)")
    parser.add_argument(
        "--format", choices=("full", "concise", "json"), default="full", help="how to say it (default: full)"
    )


def run(options: argparse.Namespace) -> int:
    """Write the differences to standard output."""
    from tenure.errors import TraceError
    from tenure.traces import load
    from tenure.views.formats.text import clean

    if options.after is None and options.at is None and options.to is None:
        raise TraceError("one trace is given; name another, or two moments of it: --at 10 --to 20")
    before = load(options.before)
    after = None if options.after is None else load(options.after)
    found = before.diff(after, at=options.at, to=options.to, device=options.device)
    if options.format == "json":
        sys.stdout.write(json.dumps(dataclasses.asdict(found), indent=1) + "\n")
        return 0
    shown: Any = str(found).splitlines()
    if options.format == "concise":
        changes = (*found.new, *found.grown, *found.shrunk, *found.gone)
        shown = [f"{change.name}: {change.bytes:+,} bytes" for change in changes]
    sys.stdout.write("".join(clean(line) + "\n" for line in shown))
    return 0


def _moment(text: str) -> int | float:
    """A step, or seconds."""
    try:
        return float(text.removesuffix("s")) if text.endswith("s") or "." in text else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no step and no number of seconds; say 10 or 1.5s") from None
