"""A tensor made in inference mode is used where autograd records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN212", "inference-tensor-in-autograd", __doc__)

_SAYS = (
    r"[Ii]nference tensors? (?:cannot be saved for backward|do not track version|outside InferenceMode)"
    r"|Inplace update to inference tensor|inference tensor outside InferenceMode|Cannot set version_counter for inference tensor"
    r"|Cannot (?:modify|update).*inference tensor"
)


def in_exception(raised: Raised) -> Finding | None:
    """A tensor made in inference mode, used where autograd needs an ordinary one."""
    unlinked = raised.says(r"does not require grad and does not have a grad_fn", "RuntimeError")
    modes = raised.mentions("inference_mode")
    if not raised.says(_SAYS, "RuntimeError") and not (unlinked and modes):
        return None
    return FAULT.finding(
        "a tensor made in inference mode is used where autograd needs an ordinary one",
        [*raised.autograd.inference_births(), *modes[:1], *raised.use],
        reason="Tensors made under torch.inference_mode() have no version counter and no history, for good: leaving the block "
        "does not change them.",
        fix=Fix(
            "take a number out of the block (loss.item()), do the operation inside it, make an ordinary tensor with clone() "
            "outside, or use torch.no_grad() instead"
        ),
        certain=not unlinked,
    )
