"""What comes when a run is over: a line that says where the trace is, and the findings.

No verb of its own: the script's process calls it at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from tenure.errors import TraceError
from tenure.frameworks import RECORDED
from tenure.trace import streams, told


def main() -> None:
    """`python -m tenure.cli.after [--findings FILE] [--quiet] FOLDER`."""
    parser = argparse.ArgumentParser(prog="tenure", allow_abbrev=False)
    parser.add_argument("--findings", type=Path)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.findings is not None:
        text = json.dumps(findings(options.folder), indent=1)
        options.findings.write_text(text + "\n", encoding="utf-8")
    if not options.quiet:
        sys.stderr.write(f"tenure: {summary(options.folder)}\n")


def findings(folder: Path) -> list[dict[str, Any]]:
    """All findings of a run, each as the JSON object of its kind."""
    return [finding.as_dict() for finding in told.heard(folder)]


def summary(folder: Path) -> str:
    """One line: what was recorded, where it is, and what to do with it."""
    processes = [found for path in sorted(folder.glob("*.arrows")) if (found := _process(path)) is not None]
    if not processes:
        return f"nothing was recorded: none of {', '.join(RECORDED)} was imported"
    events = sum(process.events for process in processes)
    several = f" of {len(processes)} processes" if len(processes) > 1 else ""
    short = _short(folder)
    return f"{events:,} events{several} in {short}; see them with: tenure report {shlex.quote(short)}"


def _process(path: Path) -> streams.Process | None:
    try:
        stream = streams.open_stream(path, [])
    except TraceError:
        return None  # `report` will say what is wrong with it
    return None if stream is None else stream.process


def _short(folder: Path) -> str:
    """The folder as seen from here, if it is below."""
    try:
        return str(folder.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return os.fspath(folder)


if __name__ == "__main__":
    main()
