"""The last lines of `tenure run`: the result, peak memory, the best advice, where the trace is, and what to type next.

Each line begins with `tenure: `, also where a long one is broken, so that scripts can tell them from the program's own.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenure.analysis.peak import Peak
from tenure.findings import Finding
from tenure.model import size
from tenure.trace.autopsies import Autopsy
from tenure.views.console import outcome
from tenure.views.formats.text import clean, short

_PREFIX = "tenure: "
_CAUSES = 2  # why leaks were not judged: the report lists them all
_GREEN, _YELLOW, _RED, _BOLD, _OFF = "\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[1m", "\x1b[0m"
# What is not broken: code that can be copied, amounts, steps, and a function after its line.
_WHOLE = re.compile(
    r"(?:or )?`[^`]*`(?: \(page\))?|[\d.,]+ (?:bytes|[KMGTP]iB)(?: of it)?|in step \d+|\(sum of \d+ \w+\)|:\d+ in \w+$"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over. `folder` is its trace, as the user would type it, and `bytes` the size of that.

    `judged` says how much of the run was checked for leaks ("all", "part" or "none"), and `limits` why not all of it.
    `unreadable` is why the trace cannot be read, and `empty` why it contains nothing, if that is so. An empty trace of
    0 bytes does not exist any more. `interrupted`: Ctrl-C ended the program.
    """

    folder: str
    bytes: int = 0
    processes: int = 0
    events: int = 0
    findings: Sequence[Finding] = ()
    ends: Sequence[Autopsy] = ()
    judged: str = "none"
    limits: Sequence[str] = ()
    peak: Peak | None = None
    unreadable: str = ""
    empty: str = ""
    interrupted: bool = False


def render(run: Ended, width: int, *, colour: bool = False) -> str:
    """Return the lines as text, broken where they are wider than `width`."""
    return "".join(_broken(style, head, rest, width, colour=colour) for style, head, rest in _lines(run))


def _lines(run: Ended) -> Iterator[tuple[str, str, str]]:
    """Yield the lines: a style, the styled beginning, and the rest."""
    yield _result(run)
    if run.peak is not None:
        yield _BOLD, f"peak memory {size(run.peak.bytes)}", _peak(run.peak)
    best = outcome.best_advice(run.findings)
    if best is not None and best.fix is not None:
        place = f"{short(best.main.file)}: " if best.main else ""
        yield _BOLD, f"advice[{best.code}]:", f" {place}{best.fix.message}"
    if run.empty and not run.bytes:
        return
    several = f"{run.processes} processes, " if run.processes > 1 else ""
    events = f"{run.events:,} {'event' if run.events == 1 else 'events'}"
    yield _BOLD, "trace:", f" {run.folder} ({several}{events}, {size(run.bytes)})"
    yield _BOLD, "next:", f" {_next(run)}"


def _result(run: Ended) -> tuple[str, str, str]:
    faults = any(map(outcome.is_fault, run.findings)) or bool(run.ends)
    if run.empty:
        return _YELLOW, "nothing was recorded:", f" {run.empty}"
    if run.unreadable:
        head = "; ".join(outcome.results(run.findings, outcome.NO_LEAK["none"], run.ends))
        return _RED if faults else _YELLOW, head, f": {run.unreadable}"
    nothing = run.peak is None
    leaks = outcome.NO_TENSOR if nothing else outcome.NO_LEAK[run.judged]
    results = [*(["interrupted"] if run.interrupted else []), *outcome.results(run.findings, leaks, run.ends)]
    causes = list(run.limits[:_CAUSES])
    result = causes[0].partition(": ")[0] if causes else ""
    causes[1:] = [cause.removeprefix(f"{result}: ") for cause in causes[1:]]
    if len(run.limits) > _CAUSES:
        causes.append(f"and {len(run.limits) - _CAUSES} more, in the report")
    if leaks in results and run.judged == "none" and causes and not nothing:
        results.remove(leaks)  # the first cause begins with the same words
        style = _RED if faults else _YELLOW
        first, _, why = causes[0].partition(": ")
        return style, "; ".join([*results, first]), "; ".join([f": {why}", *causes[1:]])
    style = _RED if faults else _YELLOW if causes or nothing else _GREEN
    causes = outcome.other(causes, run.findings)
    why = "".join(f"; {cause}" for cause in causes)
    if causes and results[-1:] == [outcome.NO_LEAK["part"]]:  # which says the same as the beginning of the first cause
        why = f": {why.partition(': ')[2]}"
    return style, "; ".join(results), why


def _peak(peak: Peak) -> str:
    step = "" if peak.step is None else f" in step {peak.step}"
    several = f" (sum of {len(peak.ranks)} processes)" if len(peak.ranks) > 1 else ""
    site = next((site for site in peak.sites if site.file is not None), None)
    if site is None:
        return f" on {peak.device}{step}{several}"
    assert site.file is not None
    inside = f" in {site.function}" if site.function and not site.function.startswith("<") else ""
    part = ", all of it" if site.bytes == peak.bytes else f"; {size(site.bytes)} of it"
    return f" on {peak.device}{step}{several}{part} allocated at {short(site.file)}:{site.line}{inside}"


def _next(run: Ended) -> str:
    folder = shlex.quote(run.folder)
    if run.empty or (run.peak is None and not run.unreadable):
        return "`tenure doctor` shows what tenure can record here"
    if run.unreadable:
        return f"`tenure report {folder}`"
    return f"`tenure report {folder}` (text) or `tenure view {folder}` (page)"


def _broken(style: str, head: str, rest: str, width: int, *, colour: bool) -> str:
    """Return a line, broken where it is too wide: after a semicolon, if the clause then fits a line."""
    room = width - len(_PREFIX)
    clauses = _WHOLE.sub(lambda whole: whole[0].replace(" ", "\0"), clean(head + rest)).split("; ")
    text = "; ".join(clause.replace(" ", "\0") if len(clause) < room - 2 else clause for clause in clauses)
    lines = textwrap.wrap(text, room, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    lines = [line.replace("\0", " ") for line in lines]
    if colour and head and lines:
        first = lines[0][: len(clean(head))]
        lines[0] = f"{style}{first}{_OFF}{lines[0][len(first) :]}"
    return "".join(f"{_PREFIX}{line}\n" for line in lines)
