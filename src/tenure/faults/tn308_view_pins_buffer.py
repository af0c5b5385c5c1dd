"""A small view keeps a large buffer alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix
from tenure.model import size

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.findings import Finding

FAULT = Fault("TN308", "view-pins-buffer", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Small views or arrays pile up, each with the whole buffer behind it."""
    holder = leak.holder
    whole = leak.facts.get("whole") or 0
    if holder is None or leak.what != "buffers":
        return None
    part = holder.nbytes if holder.kind in ("array", "view") else leak.facts.get("bytes")
    if part is None or not 0 < part * 4 <= whole or (leak.is_scalar and leak.carries_graph):
        return None
    return growth.told(
        FAULT,
        leak,
        f"views of {size(part)} in {growth.name(leak)} keep buffers of {size(whole)} alive: {growth.rate(leak)}",
        Fix("keep a copy of the part: x[...].clone() for a tensor, x[...].copy() for an array"),
        "A view has no bytes of its own: as long as it lives, all of the buffer it looks at does.",
    )
