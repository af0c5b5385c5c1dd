"""A trace in a notebook: the verdict, the bytes over time, what made the peak, and the findings."""

from __future__ import annotations

from typing import Any

from tenure import untrusted
from tenure.analysis.amounts import SiteAmount
from tenure.analysis.summary import Summary, summary
from tenure.errors import TraceError
from tenure.model import Site, size
from tenure.views.console import outcome
from tenure.views.notebook.finding import box
from tenure.views.notebook.page import Named, page, place, shortened, table, told

_MOST = 20


def trace(one: Any, named: Named = shortened) -> str:
    """Return the report of a `tenure.Trace`."""
    with untrusted.reading(one.source):
        return _page(one, named)


def _page(one: Any, named: Named) -> str:
    try:
        found = one.findings()
        told_of = summary(one, one.scanned, one.peak())
    except TraceError as error:
        return page(told(error, 2000))
    verdict = outcome.sentence(told_of, found)
    # What makes the peak is in the table already.
    boxes = [box(finding, named) for finding in found if finding.code != "TN502"]
    rest = f'<div class="dim">and {len(boxes) - _MOST:,} more</div>' if len(boxes) > _MOST else ""
    return page(f"<b>{told(verdict, 2000)}</b>", _facts(told_of), _curve(told_of), *boxes[:_MOST], rest, _peak(told_of, named), _notes(told_of))  # fmt: skip


def _facts(one: Summary) -> str:
    names = ", ".join(amount.name for amount in one.frameworks) or "no framework"
    parts = (
        names,
        f"{one.seconds:.2f} s",
        f"{one.steps:,} {'step' if one.steps == 1 else 'steps'}",
        f"{one.buffers:,} {'buffer' if one.buffers == 1 else 'buffers'} allocated ({size(one.bytes)} in total)",
        f"{size(one.left.bytes)} alive at exit",
    )
    return f'<div class="dim">{told(" · ".join(parts))}</div>'


def _curve(one: Summary) -> str:
    """Return the bytes alive, a bar for each part of the run."""
    top = max(one.curve, default=0)
    if not top:
        return ""
    bars = "".join(f'<i style="height:{max(1, 100 * value // top)}%" title="{size(value)}"></i>' for value in one.curve)
    return f'<div class="curve">{bars}</div><div class="dim">bytes alive over time, up to {size(top)}</div>'


def _peak(one: Summary, named: Named) -> str:
    if one.peak is None:
        return ""
    rows = [_row(site, one.peak.bytes, named) for site in one.peak.sites]
    step = "" if one.peak.step is None else f" in step {one.peak.step}"
    head = f"<div><b>Peak</b> of {size(one.peak.bytes)} on {told(one.peak.device)}{step}</div>"
    return head + table(("bytes", "", "buffers", "allocated at"), rows, (0, 2))


def _row(site: SiteAmount, whole: int, named: Named) -> tuple[str, str, str, str]:
    where = None if site.file is None else Site(site.file, site.line or 0, site.function or "")
    bar = f'<span class="bar" style="width:{100 * site.bytes // max(1, whole)}px"></span>'
    return size(site.bytes), bar, f"{site.count:,}", place(where, named)


def _notes(one: Summary) -> str:
    return "".join(f'<div class="dim">{told(note, 2000)}</div>' for note in (*one.limits, *one.other_notes))
