"""What comes when a run is over: a line that says where the trace is, and the findings.

No verb of its own: the script's process calls it at its end.
"""

from __future__ import annotations

import argparse
import os
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path

from tenure import console, outputs, traces
from tenure.analysis import coverage
from tenure.errors import TenureError, TraceError
from tenure.findings import Finding, is_array
from tenure.frameworks import RECORDED
from tenure.trace import autopsies, streams, told
from tenure.views.console import autopsy
from tenure.views.formats import full, plain_json
from tenure.views.formats.text import is_coloured

_WIDTH = 100


def main() -> None:
    """`python -m tenure.cli.after [--findings FILE] [--quiet] FOLDER`."""
    parser = argparse.ArgumentParser(prog="tenure", allow_abbrev=False)
    parser.add_argument("--findings", type=Path)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--failed", action="store_true", help="a framework was imported, and could not be recorded")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    found, missing = look(options.folder)
    if options.findings is not None:
        try:
            outputs.write(options.findings, plain_json.render(found).encode(), is_array)
        except (OSError, TenureError) as error:
            missing = [*missing, f"the findings are not written: {error}"]
    if not options.quiet:
        line = summary(options.folder, failed=options.failed)
        console.write(text(options.folder, found, [*missing, line], colour=is_coloured(console)))


def look(folder: Path) -> tuple[list[Finding], Sequence[str]]:
    """Return all findings of a run, and what was not judged of it.

    A trace that cannot be read has the findings that its processes wrote themselves.
    """
    try:
        trace = traces.load(folder)
        return trace.findings(), coverage.of_leaks(trace, trace.scanned)
    except TraceError as error:
        return told.heard(folder), [f"leaks not judged: {error}"] if any(folder.glob("*.arrows")) else ()


def text(folder: Path, found: Sequence[Finding], lines: Sequence[str], *, colour: bool = False) -> str:
    """What the user reads: what leaked, and these lines. What an exception was about has been said by then."""
    leaks = [finding for finding in found if finding.severity != "advice" and "path" in finding.evidence]
    parts = [autopsy.render(one) for one in autopsies.heard(folder)]
    parts += [full.render(leaks, colour=colour)] if leaks else []
    last = [textwrap.fill(f"tenure: {line}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines]
    return "".join([f"\n{part}" for part in parts] + ["\n" if parts else "", *(f"{line}\n" for line in last)])


def summary(folder: Path, *, failed: bool = False) -> str:
    """One line: what was recorded, where it is, and what to do with it."""
    files = sorted(folder.glob("*.arrows"))
    processes = [found for path in files if (found := _process(path)) is not None]
    if not processes and files:
        return f"nothing was recorded: no event reached {_short(folder)}"
    if not processes and failed:
        return "nothing was recorded: the recording could not begin"
    if not processes:
        return f"nothing was recorded: none of {', '.join(RECORDED)} was imported"
    events = sum(process.events for process in processes)
    several = f" of {len(processes)} processes" if len(processes) > 1 else ""
    short = _short(folder)
    return f"{events:,} {'event' if events == 1 else 'events'}{several} in {short}; see them with: tenure report {shlex.quote(short)}"


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
