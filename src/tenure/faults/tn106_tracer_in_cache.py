"""A tracer is kept by a cache, a default or a generator, and given out in a later trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN106", "tracer-in-cache", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value that was kept for the next call: by a cache, a default argument or a generator."""
    leak = raised.leak
    if leak is None or leak.escape is None or not leak.escape.is_cache:
        return None
    return leak.finding(FAULT)
