"""Outputs or activations are kept together with their autograd graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.findings import Finding

FAULT = Fault("TN302", "outputs-kept-with-graph", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Tensors that carry their graph pile up, or what such a graph saved."""
    if not leak.carries_graph or leak.what not in ("nodes", "buffers"):
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} keeps tensors together with their autograd graphs: {growth.rate(leak)}",
        growth.edited(leak, ".detach()", "keep the values without the graph"),
        "A tensor made with gradients on refers to the graph that made it, and that to what it saved for backward.",
    )
