"""A run in a few numbers: how long, how much, when the peak was and what made it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tenure import untrusted
from tenure.analysis import coverage
from tenure.analysis.amounts import Amount, SiteAmount, files_of, moment
from tenure.analysis.coverage import NotJudged
from tenure.analysis.peak import Peak, Rank, device_of, peak
from tenure.analysis.scan import Scan, scan
from tenure.trace import marks
from tenure.trace.reader import Recorded
from tenure.trace.streams import Process

__all__ = ["POINTS", "Amount", "NotJudged", "Peak", "Rank", "SiteAmount", "Summary", "summary"]
POINTS = 60  # of the curve

_BORN = """
    select framework, count(*) as count, sum(bytes)::bigint as bytes
    from events where event = 'birth' group by framework order by bytes desc, framework"""


@dataclass(frozen=True, slots=True)
class Summary:
    """A run. `curve` holds the most bytes alive in each of its equal parts, on the device that the peak is of.

    `notes` say what is odd about the trace, and what went wrong while it was recorded. `not_judged` are the results
    that the trace does not give, or gives only in part.
    """

    path: str
    command: tuple[str, ...]
    processes: tuple[Process, ...]
    frameworks: tuple[Amount, ...]
    began: datetime | None
    seconds: float
    steps: int
    events: int
    buffers: int
    bytes: int
    left: Amount
    curve: tuple[int, ...]
    peak: Peak | None
    notes: tuple[str, ...]
    not_judged: tuple[NotJudged, ...] = ()

    @property
    def limits(self) -> list[str]:
        """What was not judged, as text: a line per cause."""
        return coverage.lines(self.not_judged, len(self.processes))

    @property
    def leaks_judged(self) -> str:
        """How much of the run was checked for leaks: "all", "part" or "none"."""
        return coverage.extent(self.not_judged, "leaks", [process.number for process in self.processes])

    @property
    def other_notes(self) -> list[str]:
        """The notes that `limits` do not repeat."""
        causes = {one.why for one in self.not_judged}
        unended = tuple(f"process {one.pid} did not close its stream" for one in self.processes if not one.complete)
        left = [note for note in self.notes if note not in causes]
        return [note for note in left if not note.startswith(unended) or "ignored" in note]


def summary(trace: Recorded, found: Scan | None = None, top: Peak | None = None) -> Summary:
    """The whole trace in one pass over its events; none, if it was scanned, and its peak found, before."""
    found = found or scan(trace.streams)
    first, last, births, total, _ = found.facts
    known = first <= last
    alive = found.alive()
    left = [count for count in alive["bytes"].to_pylist() if count]
    return Summary(
        path=str(trace.path),
        command=trace.processes[0].command,
        processes=trace.processes,
        frameworks=_frameworks(trace, found, births, total),
        began=moment(first) if known else None,
        seconds=(last - first) / 1e6 if known else 0.0,
        steps=max((len(times) for times in found.steps), default=0),
        events=sum(process.events for process in trace.processes),
        buffers=births,
        bytes=total,
        left=Amount("alive at the end", sum(left), len(left)),
        curve=_curve(found, first, last) if known else (),
        peak=top or peak(found),
        notes=(*trace.notes, *troubles(found), *_changes(found)),
        not_judged=coverage.not_judged(trace, found),
    )


def _changes(found: Scan) -> list[str]:
    """A note for each source file that is not what ran."""
    notes = []
    for file in filter(untrusted.is_changed, files_of(found.words("site"))):
        lost = untrusted.is_lost(file)
        notes.append(
            f"advice not shown: {file} was changed since the run"
            if lost
            else f"{file} was changed since the run; its lines are shown as they were then"
        )
    return notes


def troubles(found: Scan) -> tuple[str, ...]:
    """What the recorders said went wrong: marks that begin so."""
    names = {name for one in found.sources for _, texts in one.numbers.words("name") for name in texts.to_pylist()}
    found_in = (marks.read_trouble(name) for name in sorted(names))
    return tuple(f"while recording: {problem}" for problem in found_in if problem is not None)


def _frameworks(trace: Recorded, found: Scan, births: int, total: int) -> tuple[Amount, ...]:
    """What each framework made. Where there is one, it made everything."""
    names = {name for one in found.sources for _, texts in one.numbers.words("framework") for name in texts.to_pylist()}
    if len(names) < 2:
        return tuple(Amount(name, total, births) for name in names) if births else ()
    rows = trace.sql(_BORN).to_pylist()
    return tuple(Amount(row["framework"] or "", row["bytes"] or 0, row["count"]) for row in rows)


def _curve(found: Scan, first: int, last: int) -> tuple[int, ...]:
    """The most bytes alive in each part of the run: where nothing changes, what was alive before stays."""
    device = device_of(found)
    if device is None:
        return ()
    curve, span = found.curve(device), max(last - first, 1)
    most: list[int | None] = [None] * POINTS
    final = [0] * POINTS
    for index, high, low in zip(curve.index, curve.most, curve.last, strict=True):
        point = min(POINTS - 1, max(0, (index << curve.shift) - first) * POINTS // span)
        most[point] = max(most[point] or 0, high)
        final[point] = low
    told, before = [], 0
    for highest, end in zip(most, final, strict=True):
        told.append(before if highest is None else max(before, highest))
        before = before if highest is None else end
    return tuple(told)
