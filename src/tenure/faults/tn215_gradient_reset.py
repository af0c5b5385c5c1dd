"""A gradient is read after it was reset, or is never reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN215", "gradient-reset", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A .grad that is None because it was reset, or because no backward pass has filled it yet."""
    grad = raised.autograd.missing_grad
    if grad is None or grad.is_leaf is False:
        return None
    resets = raised.autograd.resets()
    if not resets:
        return None
    return FAULT.finding(
        f"`{grad.name}.grad` is None here: it was reset, and no backward pass has filled it since",
        [*resets[-1:], *raised.use],
        reason="Since torch 2.0 zero_grad() takes the gradients away (sets them to None) instead of filling them with zeros.",
        fix=Fix(
            "read the gradient between backward() and zero_grad(), call zero_grad(set_to_none=False) to keep zeros, or make "
            "the gradient again where it is None"
        ),
        certain=False,
    )
