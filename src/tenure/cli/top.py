"""Watch a program in the terminal while it runs.

The screen shows memory, steps, source lines, reference paths and findings. Without TRACE, tenure shows your traced
program that is running now. It only reads the trace that the program writes, so you can start and leave at any time.
It needs an extra: pip install 'tenure[top]'; --once works without it.

  tenure run train.py &
  tenure top
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tenure.cli import newest
from tenure.errors import TenureError, TraceError
from tenure.findings import Finding

_NICE = 10
_ROUNDS = 10_000  # of reading, before one screen is printed: a trace that grows faster than it is read has no end
_NONE = "none of your processes is being traced; start one with: tenure run SCRIPT, or name a trace: tenure top FOLDER"


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("trace", metavar="TRACE", nargs="?", help=newest.READ)
    parser.add_argument("--rank", metavar="N", type=int, help="show only this rank, instead of all ranks together")
    parser.add_argument("--once", action="store_true", help="print one screen as plain text, and exit")


def run(options: argparse.Namespace) -> int:
    """Show the run until the user quits; once, as text, where there is no terminal."""
    from tenure.views.live.session import Session

    place = _running() if options.trace is None else Path(options.trace)
    session = Session(place, _findings, options.rank)
    try:
        if options.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            return _once(session, options.rank)
        try:
            from tenure.views.live.app import Top
        except ImportError as error:
            raise TenureError(
                f"the live view needs textual ({error}): pip install 'tenure[top]'; or use: tenure top --once"
            ) from None
        os.nice(_NICE)  # the program that is watched comes first
        Top(session).run()
    finally:
        session.close()
    return 0


def _findings(place: Path) -> tuple[Sequence[Finding], Sequence[str]]:
    """Return the findings of a run that is over, and why leaks were not judged."""
    from tenure.analysis import coverage
    from tenure.traces import load

    trace = load(place)
    return trace.faults(), coverage.of_leaks(trace, trace.scanned)


def _once(session: object, rank: int | None) -> int:
    from tenure.views.live import plain
    from tenure.views.live.picture import Wish
    from tenure.views.live.session import Session

    assert isinstance(session, Session)
    session.turn()
    for _ in range(_ROUNDS):
        if not session.behind:
            break
        session.turn()
    if rank is not None and not session.has_rank(rank):
        raise TraceError(f"{session.place} has no rank {rank}")
    text = plain.render(session.picture(Wish()), blocks=_can_write("▁│→…"))
    sys.stdout.write(text if _can_write(text) else text.encode("ascii", "backslashreplace").decode())
    return 0


def _can_write(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _running() -> Path:
    """Return the trace of the only run that is going on."""
    from tenure.trace import running

    if not running.can_be_told():
        raise TraceError("cannot list running processes on this system; name a trace: tenure top FOLDER")
    found: dict[Path, list[running.Running]] = {}
    for one in running.find():
        found.setdefault(one.folder, []).append(one)
    if not found:
        raise TraceError(_NONE)
    if len(found) > 1:
        lines = [
            f"  tenure top {shlex.quote(_short(folder))}   {_told(runs)}" for folder, runs in sorted(found.items())
        ]
        raise TraceError("\n".join(["several runs are being traced; choose one:", *lines]))
    return next(iter(found))


def _told(runs: Sequence[object]) -> str:
    from tenure.trace.running import Running
    from tenure.views.live.picture import safe

    known = [one for one in runs if isinstance(one, Running)]
    pids = ", ".join(str(one.pid) for one in known[:4]) + (" …" if len(known) > 4 else "")
    return safe(f"pid {pids}: {' '.join(known[0].command[1:])}", 100)


def _short(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return os.fspath(folder)
