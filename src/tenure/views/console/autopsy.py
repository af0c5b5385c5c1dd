"""The moment at which memory ran out, as people read it: what was wanted, and what was alive, by line and holder."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model import size
from tenure.trace.autopsies import Autopsy, Part
from tenure.views.formats.text import clean, located


def render(autopsy: Autopsy) -> str:
    """The report of that moment."""
    return "\n".join(map(clean, _lines(autopsy))) + "\n"


def _lines(autopsy: Autopsy) -> Iterator[str]:
    yield f"out of memory in step {autopsy.step}: {autopsy.why}"
    place, source = located(autopsy.stack)
    yield f"  at {place}" + (f":  {source}" if source else "")
    yield f"  alive then: {size(autopsy.alive)}" + (
        ", of which the largest parts were made here:" if autopsy.parts else ""
    )
    for part in autopsy.parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    place, source = located(part.stack)
    shape = f"  {part.facts['dtype']}{part.facts['shape']}" if "shape" in part.facts else ""
    idle = f", last used {part.idle:.1f} s before" if part.idle is not None else ""
    yield f"{size(part.bytes):>12} in {part.count:,} {'buffer' if part.count == 1 else 'buffers'}{shape}{idle}"
    yield f"{'':>12} {place}" + (f":  {source}" if source else "")
    for holder in part.holders[:2]:
        yield f"{'':>12} held by {holder}"
