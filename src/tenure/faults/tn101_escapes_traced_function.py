"""A value made inside a traced function (tf.function, jit, grad, vmap) is used outside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN101", "escapes-traced-function", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value outside of the function whose trace made it."""
    leak = raised.leak
    if leak is None or leak.construct:
        return None
    return leak.finding(FAULT)
