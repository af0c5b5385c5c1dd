"""A tensor made in inference mode is used where autograd records.

What happens: RuntimeError "Inference tensors cannot be saved for backward", "Inplace update to inference tensor outside
InferenceMode".

Why: Tensors made under torch.inference_mode() have no version counter and no history, for good. Leaving the block does
not change them.

Wrong:

    import torch

    with torch.inference_mode():
        total = torch.ones(3).sum()
    total /= 3

Right:

    import torch

    with torch.inference_mode():
        total = torch.ones(3).sum().item()
    total /= 3
    print(total)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix, Place

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN212", "inference-tensor-in-autograd", __doc__)

_SAYS = (
    r"[Ii]nference tensors? (?:cannot be saved for backward|do not track version|outside InferenceMode)"
    r"|A view was created in inference mode|Inplace update to inference tensor|inference tensor outside InferenceMode|Cannot set version_counter for inference tensor"
    r"|Cannot (?:modify|update).*inference tensor"
)


def in_exception(raised: Raised) -> Finding | None:
    """A tensor made in inference mode, used where autograd needs an ordinary one."""
    unlinked = raised.says(r"does not require grad and does not have a grad_fn", "RuntimeError")
    if not unlinked and not raised.says(_SAYS, "RuntimeError"):
        return None
    modes = raised.mentions("inference_mode")
    if unlinked and not modes:
        return None
    return FAULT.finding(
        "a tensor made in inference mode is used where autograd needs an ordinary one",
        [
            *raised.autograd.inference_births(),
            *[Place("birth", p.file, p.line, p.function, p.text) for p in modes[:1]],
            *raised.use,
        ],
        reason="Tensors made under torch.inference_mode() have no version counter and no history, for good: leaving the block "
        "does not change them.",
        fix=Fix(
            "take a number out of the block (loss.item()), do the operation inside it, make an ordinary tensor with clone() "
            "outside, or use torch.no_grad() instead"
        ),
        certain=not unlinked,
    )


_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def in_source(found: Found) -> Iterator[Finding]:
    """An inference tensor is changed or differentiated outside inference mode."""
    for seen in found.of("inference changed"):
        node = seen.node("use")
        fix = Fix("use torch.no_grad() where the tensor is made, or .item(), or do this inside inference_mode too")
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and type(node.op) in _SIGNS:
            name, value = node.target.id, seen.text("use", node.value)
            if isinstance(node.value, (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)):
                text = f"{name} = {name} {_SIGNS[type(node.op)]} {value}"
                fix = Fix(f"out of place: {text}", safe=True, edits=seen.replace("use", node, text))
        yield FAULT.finding(
            "this changes a tensor that was made in inference mode, outside of it", seen.places(), fix=fix
        )
    for seen in found.of("inference in autograd"):
        yield FAULT.finding(
            "a tensor made in inference mode takes part in a computation that autograd records",
            seen.places(),
            fix=Fix("make it in torch.no_grad() instead, or .clone() it here"),
        )
