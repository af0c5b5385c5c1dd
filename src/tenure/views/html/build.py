"""Building the page's data from a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenure import untrusted
from tenure.analysis.amounts import apart
from tenure.analysis.summary import summary
from tenure.analysis.timeline import timeline
from tenure.trace import suspects
from tenure.views.html import data, found, places

if TYPE_CHECKING:
    from tenure.traces import Trace


def build(trace: Trace, *, findings: bool = True) -> dict[str, Any]:
    """Return all that a page shows without requests. The trace to compare with has no findings."""
    with untrusted.reading(trace.source):
        return _built(trace, findings=findings)


def _built(trace: Trace, *, findings: bool) -> dict[str, Any]:
    scan = trace.scanned
    told = data.about(summary(trace, scan, trace.peak()))
    drawn = timeline(scan)
    order = data.order_of(drawn)
    grown = suspects.heard(trace.path) if trace.path.is_dir() else []
    held = places.holders(trace.leaks(), grown)
    faults = trace.findings() if findings else []
    return {
        "about": told,
        "devices": data.devices(scan),
        "moments": data.moments(drawn, scan.facts[0]),
        "rows": data.rows(drawn, order),
        "layers": data.layers(scan, drawn),
        "sites": places.sites(scan, drawn.lives, order, held),
        "steps": data.steps(scan),
        "findings": found.findings(faults, [apart(scan.words("site")[number])[:2] for number in order]),
    }


def both(trace: Trace, other: Trace | None = None) -> dict[str, Any]:
    """Return the page's data for a trace, and for another one to compare it with."""
    told = {"trace": build(trace)}
    return told if other is None else {**told, "other": build(other, findings=False)}
