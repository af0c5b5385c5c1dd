"""The out-of-memory report as text: what was requested, and what was allocated, by line and reference path."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model import size
from tenure.trace.autopsies import Autopsy, Part
from tenure.views.formats.text import clean, located


def render(autopsy: Autopsy) -> str:
    """Return the report as text."""
    return "\n".join(map(clean, _lines(autopsy))) + "\n"


def _lines(autopsy: Autopsy) -> Iterator[str]:
    yield f"out of memory in step {autopsy.step}: {autopsy.why}"
    place, source = located(autopsy.stack)
    yield f"  at {place}" + (f":  {source}" if source else "")
    yield f"  allocated at that time: {size(autopsy.alive)}" + ("; the largest parts:" if autopsy.parts else "")
    for part in autopsy.parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    place, source = located(part.stack)
    shape = f"  {part.facts['dtype']}{part.facts['shape']}" if "shape" in part.facts else ""
    idle = f", last used {part.idle:.1f} s earlier" if part.idle is not None else ""
    yield f"{size(part.bytes):>12} in {part.count:,} {'buffer' if part.count == 1 else 'buffers'}{shape}{idle}"
    yield f"{'':>12} {place}" + (f":  {source}" if source else "")
    for holder in part.holders[:2]:
        yield f"{'':>12} retained by {holder}"
