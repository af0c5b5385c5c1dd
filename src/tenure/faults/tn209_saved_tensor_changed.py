"""A tensor that autograd saved is changed in place before backward().

## What it means

PyTorch raises RuntimeError, "one of the variables needed for gradient computation has been modified by an
inplace operation", or similar errors for leaves, views and expanded tensors.

Autograd saves tensors, not copies. In-place changes are `+=`, `x[i] = ...`, relu_(), and optimizer.step()
between two backward passes.

## Why it hurts

The gradient would be wrong, so torch counts the changes and raises an error. The error occurs in backward(),
but its cause is an earlier line.

## Example

    import torch

    w = torch.ones(3, requires_grad=True)
    gate = torch.sigmoid(w)
    gate[0] = 0.0
    gate.sum().backward()

## Use instead

    import torch

    w = torch.ones(3, requires_grad=True)
    gate = torch.sigmoid(w) * torch.tensor([0.0, 1.0, 1.0])
    gate.sum().backward()
    print(w.grad)

## How to be sure

Print `gate._version` after the forward pass and before backward(): it has increased.
`torch.autograd.set_detect_anomaly(True)` also prints the forward line that saved the tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN209", "saved-tensor-changed", __doc__)

_SAVED = r"modified by an inplace operation: \[(?P<type>[^\]]*\]?)\],? (?:which is output (?P<output>\d+) of (?P<op>\w+), )?is at version (?P<is>\d+); expected version (?P<was>\d+)"
_VIEWS = ("AsStrided", "AsStridedBackward0", "T", "TBackward0", "Transpose", "Permute", "View", "ViewBackward0")
_OTHERS = (
    r"more than one element of the written-to tensor refers to a single memory location"
    r"|some elements of the input tensor and the written-to tensor refer to a single memory location"
    r"|is a view and (?:is being|its base or another view of its base has been) modified inplace"
    r"|a view of a leaf Variable that requires grad is being used in an in-place operation"
    r"|a leaf Variable that requires grad (?:is being|has been) used in an in-place operation"
    r"|leaf [Vv]ariable (?:has been )?moved into the graph interior|modified by an inplace operation"
    r"|marked for in-?place|A view was created in no_grad mode"
)


def in_exception(raised: Raised) -> Finding | None:
    """A tensor that autograd saved, or whose memory others share, was changed in place."""
    saved = raised.says(_SAVED, "RuntimeError")
    other = raised.says(_OTHERS, "RuntimeError")
    if not saved and not other:
        return None
    changes = raised.autograd.in_place(saved["op"] if saved and saved["op"] else "")
    if saved:
        # A weight reaches its operation through t() or as_strided(): naming that would not help.
        of = f" (result of {saved['op']})" if saved["op"] and saved["op"] not in _VIEWS else ""
        message = f"backward() needs a {saved['type']}{of} that was changed in place"
        why = (
            f"The forward pass saved version {saved['was']} of the tensor; it is now version {saved['is']}. Each in-place change "
            "adds one. The gradient would be wrong, so torch raises an error. The change is in an earlier line."
        )
        if changes.by_optimizer:
            why += " optimizer.step() changes the weights in place, and this backward pass runs through "
            why += "what was computed with the old ones." if changes.is_same_step else "an earlier step."
        fix = changes.fix
    elif "memory location" in raised.message:
        message = "an in-place operation writes to a tensor whose elements share memory"
        why = "After expand() or broadcasting, several elements are one location in memory. Writing to one changes the others."
        fix = "copy the tensor before the in-place operation: `expand(…).clone()`, or `repeat(…)`"
    elif "leaf" in raised.message:
        message = "a leaf tensor that requires grad is changed in place"
        why = "Autograd cannot record an in-place change of a leaf tensor, because its value before the change would be lost."
        fix = "write it out of place (`x = x + y`), or use `with torch.no_grad():` if it updates a parameter"
    else:
        message = "a view is changed in place, and autograd cannot track the change in its base"
        why = "unbind, split, chunk and iterating over a tensor return views of one base, which may not be changed in place."
        fix = "write it out of place, or call `clone()` on the view first"
    return FAULT.finding(
        message,
        [*changes.places, *raised.use],
        reason=why,
        fix=Fix(fix, edits=changes.edits if saved else ()),
        certain=not changes.places,
        labels={"end": "changed here"},
    )


_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor that the graph saved is changed before the backward pass."""
    for saved_changed in found.of(facts.SavedChanged):
        node = saved_changed.node("use")
        fix = Fix("write the change out of place, or do it after the backward pass")
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and type(node.op) in _SIGNS:
            name, value = node.target.id, saved_changed.text("use", node.value)
            text = f"{name} = {name} {_SIGNS[type(node.op)]} {value}"
            if isinstance(node.value, (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)):
                fix = Fix(f"write it out of place: `{text}`", edits=saved_changed.replace("use", node, text))
        yield FAULT.finding(
            f"a tensor that {saved_changed.op} saved for backward() is changed in place",
            saved_changed.places(),
            reason=f"backward() in line {saved_changed.line('end')} needs the unchanged value.",
            fix=fix,
            labels={"use": "changed here", "end": "needed here"},
        )
    for expanded_written in found.of(facts.ExpandedWritten):
        birth = expanded_written.node("birth")
        yield FAULT.finding(
            "this changes an expanded tensor in place: several elements share one location in memory",
            expanded_written.places(),
            fix=Fix(
                "copy it: add `.clone()` after expand()",
                safe=True,
                edits=expanded_written.after("birth", birth, ".clone()"),
            ),
            labels={"birth": "expanded here", "use": "changed here"},
        )
    for leaf_changed in found.of(facts.LeafChanged):
        yield FAULT.finding(
            "this changes a leaf tensor that requires grad in place",
            leaf_changed.places(),
            fix=Fix("do it inside `with torch.no_grad():`, or write it out of place"),
            labels={"use": "changed here"},
        )
