"""A run in a few numbers: how long, how much, when the peak was and what made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.trace.database import CHOSEN, Database
from tenure.trace.reader import Recorded
from tenure.trace.streams import Process

POINTS = 60  # of the curve
_SITES = 10

_LIVES = "create temp table lives as select process, buffer, bytes, born, ended from buffers where bytes > 0"
_CURVE = """
    create temp table curve as
    with changes as (
        select born as time, bytes from lives union all select ended, -bytes from lives where ended is not null
    ),
    moments as (select time, sum(bytes)::bigint as change from changes group by time)
    select time, (sum(change) over (order by time rows unbounded preceding))::bigint as total from moments"""
_CHOSEN = """
    create temp table chosen as
    select process, buffer from lives where born <= timestamptz '{0}' and (ended is null or ended > timestamptz '{0}')"""
_AT_PEAK = f"create temp table peak as select bytes, file, line, function, op, kind, device from ({CHOSEN})"  # noqa: S608
_ENDS = (
    "select min(time) as began, max(time) as ended, count(distinct step) filter (event = 'step') as steps from events"
)
_BORN = """
    select framework, count(*) as count, sum(bytes)::bigint as bytes
    from events where event = 'birth' group by framework order by bytes desc, framework"""
_PEAK = "select time, total from curve order by total desc, time limit 1"
_STEP = "select max(step) as step from events where event = 'birth' and time = timestamptz '{}'"
_POINTS = """
    select least({points} - 1, (epoch_us(time) - {began}) * {points} // {span}) as point,
        max(total) as most, arg_max(total, time) as last
    from curve group by point order by point"""
_LEFT = "select count(*) as count, coalesce(sum(bytes), 0)::bigint as bytes from lives where ended is null"
_BY_SITE = """
    select sum(bytes)::bigint as bytes, count(*) as count, file, line, function, mode(op) as op
    from ({}) group by file, line, function order by bytes desc, count, file, line limit {}"""
_BY = """
    select {1} as name, sum(bytes)::bigint as bytes, count(*) as count
    from ({0}) group by name order by bytes desc, name"""


@dataclass(frozen=True, slots=True)
class Amount:
    """So many buffers of this name, and their bytes."""

    name: str
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class SiteAmount:
    """What was born at one line; `op` is the operation that made most of it. Without a file, the line is not known."""

    bytes: int
    count: int
    file: str | None
    line: int | None
    function: str | None
    op: str | None


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment with the most bytes alive, and what they were."""

    bytes: int
    time: datetime
    seconds: float
    step: int | None
    sites: tuple[SiteAmount, ...]
    kinds: tuple[Amount, ...]
    devices: tuple[Amount, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """A run. `curve` holds the most bytes alive in each of its equal parts."""

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


def summary(trace: Recorded) -> Summary:
    """Look at the whole trace, three times over its events."""
    with trace.database() as db:
        (ends,) = db.run(_ENDS).to_pylist()
        frameworks = tuple(Amount(row["framework"] or "", row["bytes"] or 0, row["count"]) for row in _rows(db, _BORN))
        db.run(_LIVES)
        db.run(_CURVE)
        (left,) = _rows(db, _LEFT)
        began, ended = ends["began"], ends["ended"]
        return Summary(
            path=str(trace.path),
            command=trace.processes[0].command,
            processes=trace.processes,
            frameworks=frameworks,
            began=began,
            seconds=(ended - began).total_seconds() if began else 0.0,
            steps=ends["steps"],
            events=sum(process.events for process in trace.processes),
            buffers=sum(amount.count for amount in frameworks),
            bytes=sum(amount.bytes for amount in frameworks),
            left=Amount("alive at the end", left["bytes"], left["count"]),
            curve=_curve(db, began, ended) if began else (),
            peak=_peak(db, began) if began else None,
            notes=trace.notes,
        )


def _rows(db: Database, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = db.run(query).to_pylist()
    return found


def _peak(db: Database, began: datetime) -> Peak | None:
    found = _rows(db, _PEAK)
    if not found:
        return None
    time, total = found[0]["time"], found[0]["total"]
    (step,) = _rows(db, _STEP.format(time.isoformat()))
    db.run(_CHOSEN.format(time.isoformat()))
    db.run(_AT_PEAK)
    return Peak(
        bytes=total,
        time=time,
        seconds=(time - began).total_seconds(),
        step=step["step"],
        sites=tuple(SiteAmount(**row) for row in _rows(db, _BY_SITE.format("from peak", _SITES))),
        kinds=_amounts(_rows(db, _BY.format("from peak", "kind"))),
        devices=_amounts(_rows(db, _BY.format("from peak", "device"))),
    )


def _amounts(rows: Sequence[dict[str, Any]]) -> tuple[Amount, ...]:
    return tuple(Amount(row["name"] or "unknown", row["bytes"] or 0, row["count"]) for row in rows)


def _curve(db: Database, began: datetime, ended: datetime) -> tuple[int, ...]:
    """The most bytes alive in each part of the run: where nothing changes, what was alive before stays."""
    start, end = (round(moment.timestamp() * 1e6) for moment in (began, ended))
    query = _POINTS.format(points=POINTS, began=start, span=max(end - start, 1))
    points = {row["point"]: row for row in _rows(db, query)}
    curve, before = [], 0
    for point in range(POINTS):
        row = points.get(point)
        curve.append(before if row is None else max(before, row["most"]))
        before = before if row is None else row["last"]
    return tuple(curve)
