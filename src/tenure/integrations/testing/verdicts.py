"""The texts about tensor memory in a test report, and the last line of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ReprEntry, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from tenure.model import size

if TYPE_CHECKING:
    from tenure.findings import Finding
    from tenure.integrations.meter import Window
    from tenure.integrations.testing.leftovers import Left
    from tenure.integrations.testing.limits import Limits

_TOLD = 5  # findings in one report


@dataclass(frozen=True)
class Verdict:
    """The reason why a test fails, as one line, and its findings."""

    line: str
    nbytes: int
    findings: tuple[Finding, ...]


@dataclass
class Totals:
    """The totals of a run, or of one process of it."""

    tests: int = 0
    failed: int = 0
    leaked: int = 0  # bytes
    kept: int = 0  # bytes that caches and single names of the project keep, which fails nobody without a limit
    spared: int = 0  # bytes that libraries and fixtures of wider scopes keep
    peak: int = 0
    highest: str = ""
    notes: list[str] = field(default_factory=list)

    def reach(self, name: str, nbytes: int) -> None:
        """Note the peak of a test."""
        if nbytes > self.peak:
            self.peak, self.highest = nbytes, name

    def add(self, told: dict[str, Any]) -> None:
        """Add the totals of another process."""
        for name in ("tests", "failed", "leaked", "kept", "spared"):
            setattr(self, name, getattr(self, name) + told[name])
        self.reach(told["highest"], told["peak"])
        self.notes.extend(note for note in told["notes"] if note not in self.notes)

    def as_dict(self) -> dict[str, Any]:
        """As it travels between processes."""
        return asdict(self)


class Collected:
    """The totals of all processes under xdist."""

    def __init__(self) -> None:
        self._totals = Totals()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the totals of a worker that has exited."""
        told = getattr(node, "workeroutput", {}).get("tenure")
        if told:
            self._totals.add(told)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the totals."""
        summarize(terminalreporter, self._totals)


def leaked(left: Sequence[Left], limits: Limits) -> Verdict | None:
    """Return the verdict on what is left: over the limit if there is one, else if something accumulates."""
    from tenure.integrations.testing.leftovers import findings

    counted = [one for one in left if limits.leaked is not None or one.piles]
    nbytes = sum(one.nbytes for one in counted)
    if not counted or (limits.leaked is not None and nbytes <= limits.leaked):
        return None
    count = sum(one.count for one in counted)
    allowed = "" if limits.leaked is None else f"; the limit is {size(limits.leaked)}"
    noun = "buffer" if count == 1 else "buffers"
    line = f"the test leaked {size(nbytes)} in {count:,} {noun}{allowed}"
    found = findings(counted)
    if not found:
        line += "; no reference to it was found"
    return Verdict(line, nbytes, tuple(found))


def too_high(folder: Path, parts: Sequence[Window], device: str, rise: int, limit: int) -> Verdict:
    """Return the verdict on a peak over the limit, with the lines that made the most of it."""
    from tenure.integrations.testing import peak

    line = f"memory rose by {size(rise)} during the test; the limit is {size(limit)}"
    return Verdict(line, 0, tuple(peak.findings(folder, parts, device)))


def fail(report: pytest.TestReport, verdict: Verdict) -> None:
    """Have a test fail for this."""
    from tenure.views.formats import full  # with all faults: a run in which nothing leaks does not load them

    lines = [f"tenure: {_clean(verdict.line)}", ""]
    lines += full.render(verdict.findings[:_TOLD]).splitlines()
    if len(verdict.findings) > _TOLD:
        lines += ["", f"and {len(verdict.findings) - _TOLD} more"]
    first = next(iter(verdict.findings), None)
    short = f"tenure: {verdict.line}" if first is None else f"{first.code} {first.message}"
    file, line, _ = report.location
    place = ReprFileLocation(file, (line or 0) + 1, _clean(short))
    entry = ReprEntry([*lines, ""], None, None, place, "value")
    report.outcome = "failed"
    report.longrepr = ReprExceptionInfo(ReprTraceback([entry], None, "value"), place)


def summarize(reporter: Any, totals: Totals) -> None:
    """Print one line of totals, and problems of the checks."""
    if totals.tests:
        told = [f"{totals.tests:,} {'test' if totals.tests == 1 else 'tests'} watched"]
        told.append(f"{size(totals.leaked)} leaked" if totals.leaked else "nothing leaked")
        if totals.kept:
            told.append(f"{size(totals.kept)} kept in caches and single names")
        if totals.peak:
            told.append(f"the highest peak was {size(totals.peak)} in {_clean(totals.highest)}")
        reporter.write_line(f"tenure: {'; '.join(told)}")
    for note in totals.notes:
        reporter.write_line(f"tenure: {_clean(note)}")


def _clean(text: str) -> str:
    """Return the text without control characters. A text without any loads no module."""
    if text.isprintable():
        return text
    from tenure.views.formats.text import clean

    return clean(text)
