"""One line allocates a large part of the peak.

## What it means

This is not a mistake, but the place to look first: of all lines, this one allocated the most of the memory
that is in use at the peak.

## Why it hurts

Peak memory decides which batch and which model fit on the device. A smaller allocation here lowers it the
most.

## Example

    logits = model(batch)                              # activations of the whole batch
    images = torch.stack([load(p) for p in paths])     # all inputs at once

## Use instead

    logits = checkpoint_sequential(model, 4, batch, use_reentrant=False)   # or a smaller batch
    for paths_of_batch in chunks(paths, 32):                               # load inputs in parts
        images = torch.stack([load(p) for p in paths_of_batch])

## How to be sure

Run `tenure report` on the trace: it lists the lines that allocated the peak. Run the program with half the
batch and compare the traces with `tenure diff`: activations and inputs shrink, parameters and optimizer state
do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Finding, Place
from tenure.model import Site, size

if TYPE_CHECKING:
    from tenure.analysis.peak import Peak

FAULT = Fault("TN502", "makes-the-peak", __doc__, severity="advice", labels={"birth": "allocated here"})
_KINDS = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer state": "optimizer state",
    "activation": "activations",
    "input": "inputs",
    "constant": "constants",
    "temporary": "temporaries",
}
_LEAST = 1 << 20
_SHARE = 0.25


def in_trace(peak: Peak) -> Finding | None:
    """Return the finding for the line that allocated most of the peak; None if no line dominates."""
    top = next(iter(peak.sites), None)
    if top is None or top.file is None or top.line is None or peak.bytes < _LEAST or top.bytes < peak.bytes * _SHARE:
        return None
    step = "" if peak.step is None else f", in step {peak.step}"
    kind = f", mostly {_KINDS[top.kind]}" if top.kind in _KINDS else ""
    return FAULT.finding(
        f"this line allocated {size(top.bytes)} of the {size(peak.bytes)} peak on {peak.device}{kind}",
        [Place.at("birth", Site(top.file, top.line, top.function or ""))],
        reason=f"The peak is at {peak.seconds:.2f} s{step}. This line allocated {top.count:,} of the {peak.count:,} buffers that are alive then.",
        evidence={
            "peak": peak.bytes,
            "bytes": top.bytes,
            "buffers": top.count,
            "device": peak.device,
            "kinds": {kind.name: kind.bytes for kind in peak.kinds},
        },
    )
