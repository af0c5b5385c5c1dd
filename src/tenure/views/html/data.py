"""The data that the page draws: a trace as bounded plain data. Times are in µs since its beginning.

However many buffers there were, the page gets sums at some moments, the lines that mattered, and a few lives of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

import tenure
from tenure.analysis.peak import device_of
from tenure.analysis.scan import Scan
from tenure.analysis.summary import Summary
from tenure.analysis.timeline import Sums, Timeline
from tenure.views.html.texts import plain, shown

SITES = 160
REST, UNKNOWN = -1, -2  # of rows: the sites that are not shown, and no site
_STEPS = 4000


def about(summary: Summary) -> dict[str, Any]:
    """Return the run in numbers."""
    began: datetime | None = summary.began
    return {
        "version": tenure.__version__,
        "path": shown(summary.path),
        "command": shown(" ".join(summary.command)),
        "frameworks": [shown(amount.name) for amount in summary.frameworks],
        "processes": len(summary.processes),
        "began": began.isoformat() if began else None,
        "seconds": summary.seconds,
        "steps": summary.steps,
        "events": summary.events,
        "buffers": summary.buffers,
        "bytes": summary.bytes,
        "left": {"bytes": summary.left.bytes, "count": summary.left.count},
        "limits": plain(summary.limits),
        "leaks_judged": summary.leaks_judged,
        "notes": plain(summary.other_notes),
    }


def devices(scan: Scan) -> list[dict[str, Any]]:
    """Return the devices on which something was alive, the most important first."""
    first, main = scan.facts[0], device_of(scan)
    found = [
        {"number": at, "name": shown(name), "peak": most, "at": when - first, "end": left}
        for at, (name, (most, when, left)) in enumerate(zip(scan.words("device"), scan.peaks(), strict=False))
        if most
    ]
    return sorted(found, key=lambda one: (one["number"] != main, -one["peak"]))


def steps(scan: Scan) -> dict[str, Any]:
    """Return when steps finished, in the process with the most of them; of very many, every n-th."""
    times = max(scan.steps, key=len, default=())
    every = -(-len(times) // _STEPS) or 1
    return {"every": every, "times": [time - scan.facts[0] for time in times[every - 1 :: every]]}


def moments(drawn: Timeline, first: int) -> list[int]:
    """Return the points in time, relative to the beginning."""
    return [moment - first for moment in drawn.moments]


def layers(scan: Scan, drawn: Timeline) -> dict[str, list[dict[str, Any]]]:
    """Return the bytes alive by kind, scope and process, for each device."""
    processes = [stream.process for stream in scan.streams]
    ranks = [f"process {one.number}" if one.rank is None else f"rank {one.rank}" for one in processes]
    found = {"kind": _layers(drawn.kinds, scan.words("kind"))}
    if scan.words("scope"):
        found["scope"] = _layers(drawn.scopes, scan.words("scope"), "no scope")
    if len(ranks) > 1:
        found["rank"] = _layers(drawn.processes, ranks)
    return found


def _layers(sums: Sums, names: Sequence[str], unknown: str = "unknown") -> list[dict[str, Any]]:
    found = []
    for at, (device, number) in enumerate(sums.rows):
        values = list(_row(sums, at))
        if any(values):
            name = "others" if number is None else unknown if number < 0 else names[number]
            found.append({"device": device, "name": shown(name), "changes": _changes(values)})
    return found


def rows(drawn: Timeline, order: dict[int, int]) -> list[dict[str, Any]]:
    """Return the bytes, the buffers and the bytes after their last use, by site; sites that are not shown are one."""
    found: list[dict[str, Any]] = []
    rest: dict[int, list[list[int]]] = {}
    for at, (device, number) in enumerate(drawn.sites.rows):
        columns = [list(_row(sums, at)) for sums in (drawn.sites, drawn.counts, drawn.past)]
        if not any(columns[1]):
            continue
        if number in order or number == -1:
            at_ = UNKNOWN if number == -1 else order[number]
            found.append({"device": device, "site": at_, "changes": _changes(*columns)})
        else:
            before = rest.get(device)
            rest[device] = columns if before is None else [_sum(*pair) for pair in zip(before, columns, strict=True)]
    found += [{"device": device, "site": REST, "changes": _changes(*columns)} for device, columns in rest.items()]
    return found


def order_of(drawn: Timeline, limit: int = SITES) -> dict[int, int]:
    """Return the sites to show, by number: those with the highest peak come first."""
    most: dict[int, int] = {}
    for at, (_, number) in enumerate(drawn.sites.rows):
        if number is not None and number >= 0 and any(_row(drawn.counts, at)):
            most[number] = max(most.get(number, 0), *_row(drawn.sites, at))
    chosen = sorted(most, key=lambda number: (-most[number], number))[:limit]
    return {number: at for at, number in enumerate(chosen)}


def _row(sums: Sums, at: int) -> Iterable[int]:
    return accumulate(sums.values[at * sums.width : (at + 1) * sums.width - 1])


def _sum(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _changes(*columns: list[int]) -> list[int]:
    """Return only the changes: the index of the time, then the new value of each column."""
    found: list[int] = []
    before: tuple[int, ...] = (0,) * len(columns)
    for at, values in enumerate(zip(*columns, strict=True)):
        if values != before:
            found += (at, *values)
            before = values
    return found
