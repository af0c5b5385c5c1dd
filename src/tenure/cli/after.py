"""The end of `tenure run`: the findings, and a few lines that sum up the run.

Not a command: the script's process starts it when the script is over.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tenure import console

if TYPE_CHECKING:
    from tenure.findings import Finding
    from tenure.traces import Trace
    from tenure.views.console.last_lines import Ended


def main() -> None:
    """`python -m tenure.cli.after [--findings FILE] [--quiet] FOLDER`. An error here is one line, and nothing else."""
    parser = argparse.ArgumentParser(prog="tenure", allow_abbrev=False)
    parser.add_argument("--findings", type=Path)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--failed", action="store_true", help="a framework was imported, and could not be recorded")
    parser.add_argument("--raised", action="store_true", help="the script raised an exception")
    parser.add_argument("--interrupted", action="store_true", help="Ctrl-C interrupted the script")
    parser.add_argument("--made", action="store_true", help="the folder is new: remove it if nothing was recorded")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    try:
        _finish(options)
    except Exception as error:  # noqa: BLE001 - the program's output must not end with a traceback of tenure's
        if not options.quiet:
            console.say(f"cannot summarise this run: {type(error).__name__}: {error}; the trace is in {options.folder}")


def _finish(options: argparse.Namespace) -> None:
    from tenure.views.console import last_lines
    from tenure.views.formats.text import columns, is_coloured, width

    if options.made:
        _remove_empty(options.folder)
    run = look(options.folder, failed=options.failed, raised=options.raised, complete=options.findings is not None)
    run = replace(run, interrupted=options.interrupted)
    if options.findings is not None and (problem := _write(options.findings, run.findings)):
        console.say(problem)
    if options.quiet:
        return
    wide, colour = width(columns(console)), is_coloured(console)
    above = found(run, wide, colour=colour) or ("\n" if options.raised else "")  # below a traceback
    console.write(above + last_lines.render(run, wide, colour=colour))


def _remove_empty(folder: Path) -> None:
    """Remove the folder if nothing was recorded, and no process is left that may still do so."""
    from tenure.trace import folders, running

    with suppress(OSError):  # then it stays, and says so itself
        if not running.may_write(folder, ended=os.getppid()):
            folders.remove_empty(folder)


def look(folder: Path, *, failed: bool = False, raised: bool = False, complete: bool = False) -> Ended:
    """Return the result of a run; with `complete`, with all its findings.

    Otherwise advice is worked out only if enough bytes of the peak were not needed any more. A trace that cannot be
    read has the findings that its processes wrote themselves.
    """
    from tenure import traces
    from tenure.analysis import coverage
    from tenure.errors import TraceError
    from tenure.trace import autopsies, folders, told
    from tenure.views.console.last_lines import Ended

    run = Ended(folders.shown(folder), bytes=folders.size_of(folder), ends=autopsies.heard(folder))
    empty = _empty(folder, failed=failed, raised=raised)
    if empty:
        return replace(run, empty=empty, findings=told.heard(folder))
    try:
        trace = traces.load(folder)
        not_judged = coverage.not_judged(trace, trace.scanned)
        return replace(
            run,
            processes=len(trace.processes),
            events=sum(process.events for process in trace.processes),
            findings=trace.findings() if complete or _may_be_lower(trace) else trace.faults(),
            judged=coverage.extent(not_judged, "leaks", [process.number for process in trace.processes]),
            limits=coverage.of_leaks(trace, trace.scanned),
            peak=trace.peak(),
        )
    except TraceError as error:
        return replace(run, unreadable=str(error), findings=told.heard(folder))


def found(run: Ended, width: int, *, colour: bool = False) -> str:
    """Return the findings as text: memory that ran out, and leaks. Exceptions were explained when they ended the program."""
    from tenure.views.console import autopsy
    from tenure.views.formats import full

    leaks = [finding for finding in run.findings if finding.severity != "advice" and "path" in finding.evidence]
    parts = [autopsy.render(one) for one in run.ends]
    parts += [full.render(leaks, colour=colour, width=width)] if leaks else []
    return "".join([f"\n{part}" for part in parts] + ["\n" if parts else ""])


def _may_be_lower(trace: Trace) -> bool:
    """Return whether a search for advice may find something."""
    from tenure.analysis import drag

    peak = trace.peak()
    several = len(trace.processes) > 1  # each has a peak of its own
    return peak is not None and peak.bytes >= drag.LEAST and (several or peak.past >= drag.LEAST)


def _empty(folder: Path, *, failed: bool, raised: bool) -> str:
    """Return why nothing was recorded; empty if something was, or if its files cannot be read."""
    from tenure.errors import TraceError
    from tenure.frameworks import RECORDED
    from tenure.trace import streams

    files = sorted(folder.glob("*.arrows"))
    if not files:
        names = f"{', '.join(RECORDED[:-1])} or {RECORDED[-1]}"
        imported = f"the script {'failed before it imported' if raised else 'did not import'} {names}"
        return "the recording could not begin" if failed else imported
    try:
        recorded = any(streams.open_stream(path, []) is not None for path in files)
    except TraceError:
        return ""
    return "" if recorded else "no event reached the disk"


def _write(file: Path, findings: Sequence[Finding]) -> str:
    """Write the findings; return why that failed, if it did."""
    from tenure import outputs
    from tenure.errors import TenureError
    from tenure.findings import is_array
    from tenure.views.formats import plain_json

    try:
        outputs.write(file, plain_json.render(findings).encode(), is_array)
    except (OSError, TenureError) as error:
        return f"the findings are not written: {error}"
    return ""


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends this at once, without a traceback
    main()
