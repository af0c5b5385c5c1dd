"""What the most memory went into.

No mistake, but where to look first: the line whose buffers are the largest part of what is alive when memory is at its
peak. What helps depends on what they are: activations go down with the batch or by checkpointing, optimizer state and
gradients with what is trained, inputs by loading them in parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Finding, Place
from tenure.model import Site, size

if TYPE_CHECKING:
    from tenure.analysis.peak import Peak

FAULT = Fault("TN502", "makes-the-peak", __doc__, severity="advice")
_LEAST = 1 << 20
_SHARE = 0.25


def in_trace(peak: Peak) -> Finding | None:
    """The finding for the line that makes the most of a peak; None if none stands out."""
    top = next(iter(peak.sites), None)
    if top is None or top.file is None or top.line is None or peak.bytes < _LEAST or top.bytes < peak.bytes * _SHARE:
        return None
    step = "" if peak.step is None else f", in step {peak.step}"
    kind = f", mostly of kind {top.kind}" if top.kind else ""
    return FAULT.finding(
        f"{size(top.bytes)} of the peak of {size(peak.bytes)} on {peak.device} were made at this line{kind}",
        [Place.at("birth", Site(top.file, top.line, top.function or ""))],
        reason=f"the peak is at {peak.seconds:.2f} s{step}; {top.count:,} of its {peak.count:,} buffers are of this line",
        evidence={
            "peak": peak.bytes,
            "bytes": top.bytes,
            "buffers": top.count,
            "device": peak.device,
            "kinds": {kind.name: kind.bytes for kind in peak.kinds},
        },
    )
