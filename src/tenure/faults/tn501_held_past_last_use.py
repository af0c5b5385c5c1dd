"""A tensor is still allocated at the peak, after its last use.

## What it means

A name keeps its tensor until it is assigned again, deleted, or its function returns. Here the last operation
that uses the tensor runs before the peak, and the name still exists at the peak.

tenure verifies the promised peak: it replays the trace with these buffers freed after that line. It gives no
advice for a name that is read again on any path, that an inner function uses, or whose tensor something else
keeps alive: the autograd graph before its backward(), an optimizer, a module.

## Why it hurts

Peak memory is higher than the program needs, so a batch or a model that would fit runs out of memory.

## Example

    hidden = encode(batch)
    scores = hidden @ weights       # the last use of hidden
    return rank(scores)             # the peak is in here, and hidden is still allocated

## Use instead

    hidden = encode(batch)
    scores = hidden @ weights
    del hidden                      # or move these lines to a function of their own
    return rank(scores)

## How to be sure

Add the `del`, record the program again into a second folder, and compare the peaks:
`tenure run -o after train.py`, then `tenure diff before after`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Finding, Fix, Place
from tenure.model import size

if TYPE_CHECKING:
    from tenure.analysis.drag import Advice

FAULT = Fault("TN501", "held-past-last-use", __doc__, severity="advice", labels={"end": "freed here"})


def in_trace(advice: Advice) -> Finding:
    """Return the finding for buffers that could have been freed earlier."""
    one = "buffer" if advice.count == 1 else "buffers"
    many = len(advice.release.names) > 1
    held = f"`{advice.names}` ({size(advice.bytes)} in {advice.count:,} {one})"
    share = advice.saved / advice.peak if advice.peak else 0
    places = [Place.at("birth", advice.born), Place.at("use", advice.used)]
    if advice.ended is not None:
        places.append(Place.at("end", advice.ended))
    other = "; the new peak is at a different time" if advice.saved < advice.bytes * 0.95 else ""
    played = "" if advice.played >= advice.events else f" (replayed {advice.played:,} of {advice.events:,} events)"
    return FAULT.finding(
        f"{held} {'are' if many else 'is'} still allocated at the peak, after {'their' if many else 'its'} last use",
        places,
        reason=f"Line {advice.used.line} is the last use, but the memory is still allocated at the peak ({size(advice.peak)}).",
        fix=Fix(
            f"{advice.text}: peak memory drops by {size(advice.saved)} ({share:.0%}), to {size(advice.left)}{other}{played}",
            safe=True,
            edits=advice.release.edits,
        ),
        evidence={
            "bytes": advice.bytes,
            "buffers": advice.count,
            "saved": advice.saved,
            "peak": advice.peak,
            "left": advice.left,
            "process": advice.process,
            "events_played": advice.played,
            "events": advice.events,
        },
    )
