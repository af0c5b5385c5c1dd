"""A tensor that was created in inference mode is used where autograd records.

## What it means

PyTorch raises RuntimeError, "Inference tensors cannot be saved for backward" or "Inplace update to inference
tensor outside InferenceMode".

Tensors that are created under torch.inference_mode() never get a version counter or a history. The end of the
block does not change that.

## Why it hurts

The tensor can be read, but not changed in place or used in training. The error occurs far from the block that
created it.

## Example

    import torch

    with torch.inference_mode():
        total = torch.ones(3).sum()
    total /= 3

## Use instead

    import torch

    with torch.inference_mode():
        total = torch.ones(3).sum().item()
    total /= 3
    print(total)

## How to be sure

Call `total.is_inference()`: it returns True, also after the block.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix, Place

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN212", "inference-tensor-in-autograd", __doc__)

_SAYS = (
    r"[Ii]nference tensors? (?:cannot be saved for backward|do not track version|outside InferenceMode)"
    r"|A view was created in inference mode|Inplace update to inference tensor|inference tensor outside InferenceMode|Cannot set version_counter for inference tensor"
    r"|Cannot (?:modify|update).*inference tensor"
)


def in_exception(raised: Raised) -> Finding | None:
    """A tensor that was created in inference mode is used where autograd needs a normal one."""
    unlinked = raised.says(r"does not require grad and does not have a grad_fn", "RuntimeError")
    if not unlinked and not raised.says(_SAYS, "RuntimeError"):
        return None
    modes = raised.mentions("inference_mode")
    if unlinked and not modes:
        return None
    return FAULT.finding(
        "a tensor created in inference mode is used where autograd needs a normal tensor",
        [
            *raised.autograd.inference_births(),
            *[Place("birth", p.file, p.line, p.function, p.text) for p in modes[:1]],
            *raised.use,
        ],
        reason="Tensors that are created under torch.inference_mode() never get a version counter or a history, not even after the "
        "block ends.",
        fix=Fix(
            "read a number inside the block (`loss.item()`), do the operation inside it, make a normal tensor with `clone()` "
            "outside, or use `torch.no_grad()` instead"
        ),
        certain=not unlinked,
    )


_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def in_source(found: Found) -> Iterator[Finding]:
    """An inference tensor is changed or differentiated outside inference mode."""
    for inference_changed in found.of(facts.InferenceChanged):
        node = inference_changed.node("use")
        fix = Fix("create the tensor under `torch.no_grad()`, call `.item()`, or do this inside inference_mode too")
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and type(node.op) in _SIGNS:
            name, value = node.target.id, inference_changed.text("use", node.value)
            if isinstance(node.value, (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)):
                text = f"{name} = {name} {_SIGNS[type(node.op)]} {value}"
                fix = Fix(
                    f"write it out of place: `{text}`", safe=True, edits=inference_changed.replace("use", node, text)
                )
        yield FAULT.finding(
            "this changes an inference tensor in place outside inference mode", inference_changed.places(), fix=fix
        )
    for inference_in_autograd in found.of(facts.InferenceInAutograd):
        yield FAULT.finding(
            "autograd records an operation on a tensor that was created in inference mode",
            inference_in_autograd.places(),
            fix=Fix("create it under `torch.no_grad()` instead, or call `.clone()` on it here"),
        )
