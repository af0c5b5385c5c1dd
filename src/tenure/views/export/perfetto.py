"""A trace for https://ui.perfetto.dev: bytes alive as counters, steps and the lives of large buffers as slices.

Each process has its counters by device and kind, its steps, its marks, and below `lifetimes` a track for each line of
source whose buffers are large or live long. A slice goes from birth to end; inside it, what comes after the last use
is a slice of its own. What was found stands at the peak (advice) or at the end (faults).
"""

from __future__ import annotations

from typing import Any, BinaryIO

from tenure.findings import Finding
from tenure.model import size
from tenure.trace.database import CHOSEN
from tenure.trace.streams import Process
from tenure.views.export.base import Job, process_name
from tenure.views.export.by_stack import peaks
from tenure.views.export.packets import Counter, Packets

NAME = "perfetto"
SUFFIX = ".pftrace"
ABOUT = "bytes alive, steps and large buffers, for ui.perfetto.dev"
TABLES = False
_LIVES = 10_000
_EXACT = 500_000  # births; of more, counters are told at no more than so many moments
_POINTS = 200_000

_MOMENTS = """
    with lives as materialized (select process, device, kind, bytes, born, ended from buffers where bytes > 0),
    changes as (
        select born as time, process, device, kind, bytes from lives
        union all select ended, process, device, kind, -bytes from lives where ended is not null
    )
    select epoch_us(time) as time, process, device, kind, sum(bytes)::bigint as change
    from changes group by all order by time, process, device, kind"""
_STEPS = """
    select process, step, epoch_us(began) as began, epoch_us(ended) as ended, births, bytes
    from steps order by process, ended"""
_MARKS = "select process, epoch_us(time) as time, name from events where event = 'mark' and name is not null"
_LARGEST = f"""
    with lives as (
        select process, buffer, any_value(bytes) as bytes, min(time) filter (event = 'birth') as born,
            max(time) filter (event = 'end') as ended
        from events where buffer is not null group by process, buffer
    ),
    chosen as materialized (
        select process, buffer from lives where bytes > 0 and born is not null
        order by bytes::double * ({{}} - epoch_us(born) + 1) - coalesce(bytes::double * ({{}} - epoch_us(ended)), 0) desc,
            process, buffer limit {_LIVES}
    )
    select *, epoch_us(born) as began, epoch_us(last_use) as used, epoch_us(ended) as gone
    from ({CHOSEN}) order by process, site, born, buffer"""  # noqa: S608  our own words and numbers
_TOLD = (
    "bytes", "kind", "dtype", "shape", "op", "site", "stack", "step", "scope", "thread", "uses", "last_op", "last_site",
    "cause", "end_site", "end_stack", "end_step", "process", "buffer",
)  # fmt: skip


def write(job: Job) -> None:
    """Write it."""
    first, last = job.trace.scanned.facts[:2]
    with job.path.open("wb") as file:
        _Picture(job, file, first, max(first, last)).draw()


class _Picture:
    def __init__(self, job: Job, file: BinaryIO, first: int, last: int) -> None:
        self._job = job
        self._out = Packets(file, first)
        self._last = last
        self._span = max(1, (last - first) // _POINTS) if job.trace.scanned.facts[2] > _EXACT else 1
        self._processes = {one.number: self._process(at, one) for at, one in enumerate(job.trace.processes)}

    def _process(self, at: int, process: Process) -> int:
        """Return the track of a process. Perfetto's ids have 31 bits, and 0 is the idle task."""
        pid = process.number if 0 < process.number < 1 << 31 else (1 << 30) + at
        return self._out.process(pid, process_name(process, self._job.trace))

    def draw(self) -> None:
        self._findings()
        self._steps()
        self._marks()
        self._counters()
        self._lives()

    def _findings(self) -> None:
        """Return the findings as events: advice at the peak, errors at the end."""
        trace = self._job.trace
        top = trace.peak()
        track = self._out.track("findings", next(iter(self._processes.values())), rank=-5)
        if top is not None:
            at = peaks(self._job)[top.device][1]
            self._out.instant(track, at, f"peak: {size(top.bytes)} on {top.device}", {"bytes": top.bytes})
        for finding in trace.findings():
            advice = finding.code.startswith("TN5") and top is not None
            self._out.instant(track, at if advice else self._last, f"{finding.code} {finding.name}", _about(finding))

    def _steps(self) -> None:
        tracks: dict[int, int] = {}
        for row in self._job.rows(_STEPS):
            process = row["process"]
            if process not in tracks:
                tracks[process] = self._out.track("steps", self._processes[process], rank=-4)
            told = {"births": row["births"], "bytes": row["bytes"]}
            self._out.begin(tracks[process], row["began"], f"step {row['step']}", told)
            self._out.end(tracks[process], row["ended"])

    def _marks(self) -> None:
        tracks: dict[int, int] = {}
        for row in self._job.rows(_MARKS):
            process = row["process"]
            if process not in tracks:
                tracks[process] = self._out.track("marks", self._processes[process], rank=-3)
            self._out.instant(tracks[process], row["time"], row["name"], {})

    def _counters(self) -> None:
        """Write the bytes alive: per process by device and kind, and over all processes by device."""
        counters: dict[tuple[Any, ...], Counter] = {}
        for row in self._job.rows(_MOMENTS):
            process, device, kind = row["process"], row["device"] or "unknown", row["kind"]
            for key in ((process, device), (process, device, kind), *([(device,)] if len(self._processes) > 1 else ())):
                counter = counters.get(key)
                if counter is None:
                    counter = counters[key] = self._counter(key)
                counter.add(row["time"], row["change"])
        for counter in counters.values():
            counter.done()

    def _counter(self, key: tuple[Any, ...]) -> Counter:
        if len(key) == 1:
            return self._out.counter(f"live bytes on {key[0]}, all processes", 0, self._span)
        process, device, *kind = key
        name = f"live bytes on {device}"
        if not kind:
            return self._out.counter(name, self._processes[process], self._span, rank=-2)
        group = self._out.group(f"{name} by kind", self._processes[process], rank=-1)
        return self._out.counter(f"{device}: {kind[0]}", group, self._span)

    def _lives(self) -> None:
        uses = self._job.trace.scanned.tells_uses
        for row in self._job.rows(_LARGEST.format(self._last, self._last)):
            group = self._out.group("lifetimes", self._processes[row["process"]], rank=0)
            # Tracks of one name are shown as one: lives that overlap lie below each other.
            track = self._out.track(row["site"] or "place unknown", group)
            shape = f" {row['dtype'] or ''}{row['shape'] or ''}".rstrip()
            told = {name: row[name] for name in _TOLD} | {"end": "alive at the end" if row["gone"] is None else None}
            born, end = row["began"], self._last if row["gone"] is None else row["gone"]
            self._out.begin(track, born, f"{size(row['bytes'])}{shape}", told)
            if uses:
                used = max(row["used"] or 0, born)
                if used < end:
                    self._out.begin(track, used, "after its last use", {"last_site": row["last_site"]})
                    self._out.end(track, end)
            self._out.end(track, end)


def _about(finding: Finding) -> dict[str, Any]:
    main = finding.main
    return {
        "message": finding.message,
        "severity": finding.severity,
        "file": main.file if main else None,
        "line": main.line if main else None,
        "fix": finding.fix.message if finding.fix else None,
    }
