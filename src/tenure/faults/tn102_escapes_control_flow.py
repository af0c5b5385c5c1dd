"""A value made inside a control-flow body (cond, while_loop, scan, map_fn, Dataset.map) is used outside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN102", "escapes-control-flow", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value outside of the branch or loop body that made it."""
    leak = raised.leak
    if leak is None or not leak.construct:
        return None
    return leak.finding(FAULT)
