"""A loss is added up together with its autograd graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.findings import Finding

FAULT = Fault("TN301", "loss-accumulated-with-graph", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Numbers that carry their graph are added up or collected."""
    if not leak.carries_graph or not leak.is_scalar or leak.what not in ("nodes", "buffers"):
        return None
    if leak.has("saved"):
        return None
    how = "adds up" if leak.what == "nodes" else "collects"
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} {how} losses together with their autograd graphs: {growth.rate(leak)}",
        growth.edited(leak, ".item()", "keep the number"),
        "A loss refers to the graph that made it. Who keeps the loss keeps the graph, and what that saved.",
    )
