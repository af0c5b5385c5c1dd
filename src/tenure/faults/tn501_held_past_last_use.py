"""A tensor is held past its last use, at the peak.

A name keeps its tensor until it is bound anew, deleted, or its function returns. If that is long after the last
operation that needed the tensor, and the most memory is in use in between, the peak is higher than it had to be.

    hidden = encode(batch)
    scores = hidden @ weights       # the last use of hidden
    return rank(scores)             # the peak is in here, and hidden is still part of it

Delete the name when it is needed no more, or give the work before it a function of its own:

    hidden = encode(batch)
    scores = hidden @ weights
    del hidden
    return rank(scores)

What is promised was checked: the trace was played again with these buffers ended after that line, and the peak that was
left is the one that is told. Nothing is advised for names that are read again on any path, that functions inside see,
or whose tensor something else holds: the autograd graph until its backward pass, an optimizer, a module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Finding, Fix, Place
from tenure.model import size

if TYPE_CHECKING:
    from tenure.analysis.drag import Advice

FAULT = Fault("TN501", "held-past-last-use", __doc__, severity="advice")


def in_trace(advice: Advice) -> Finding:
    """The finding for something that could have ended earlier."""
    one = "buffer" if advice.count == 1 else "buffers"
    held = f"`{advice.names}` ({size(advice.bytes)} in {advice.count} {one})"
    share = advice.saved / advice.peak if advice.peak else 0
    places = [Place.at("birth", advice.born), Place.at("use", advice.used)]
    if advice.ended is not None:
        places.append(Place.at("end", advice.ended))
    other = "; another moment is then the highest" if advice.saved < advice.bytes * 0.95 else ""
    played = "" if advice.played >= advice.events else f" (played: {advice.played:,} of {advice.events:,} events)"
    return FAULT.finding(
        f"{held} is held past its last use at the peak",
        places,
        reason=f"line {advice.used.line} is the last to use it, and it is still alive when memory is at its peak of "
        f"{size(advice.peak)}",
        fix=Fix(
            f"{advice.text}: the peak falls by {size(advice.saved)} ({share:.0%}), to {size(advice.left)}{other}{played}",
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
