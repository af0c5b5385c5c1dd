"""The lines that made a test's peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tenure import traces
from tenure.analysis import peak
from tenure.errors import TraceError
from tenure.faults import tn502_makes_the_peak
from tenure.findings import Finding, Place
from tenure.integrations.meter import Window
from tenure.model import Site, size

_LINES = 3


def findings(folder: Path, parts: Sequence[Window], device: str) -> Iterator[Finding]:
    """Yield the findings for the lines that allocated most of the peak during the test."""
    import pyarrow as pa

    span = max((part.spans[device] for part in parts if device in part.spans), key=lambda one: one.most - one.first)
    try:
        scan = traces.load(folder).scanned
        number = peak.device_of(scan, device)
    except TraceError:
        return  # the trace is not whole: the amount is known all the same
    if number is None or span.when is None:
        return
    alive = peak.alive_on(scan, number, span.when)
    # Not what a fixture of a wider scope made in between.
    times = alive["born"].to_pylist()
    own = alive.filter(pa.array([any(p.start <= time <= (p.end or time) for p in parts) for time in times], pa.bool_()))
    for site in peak.by_site(scan, own, span.when, _LINES):
        if site.file is not None and site.line is not None:
            count = f"{site.count:,} {'buffer' if site.count == 1 else 'buffers'}"
            kind = f" of kind {site.kind}" if site.kind else ""
            yield tn502_makes_the_peak.FAULT.finding(
                f"{size(site.bytes)} of the memory alive at the test's peak on {device} was allocated at this line",
                [Place.at("birth", Site(site.file, site.line, site.function or ""))],
                reason=f"{count}{kind}",
                evidence={"bytes": site.bytes, "buffers": site.count, "device": device},
            )
