"""A tensor that autograd saved is changed in place before backward.

What happens: RuntimeError "one of the variables needed for gradient computation has been modified by an inplace
operation", or its relatives for leaves, views and expanded tensors.

Why: Autograd saves tensors, not copies. Changed in place (+=, x[i] = …, relu_(), optimizer.step() between two passes)
they would give wrong gradients, so torch counts the changes and refuses. The error comes in backward(), the cause was
before.

Wrong:

    import torch

    w = torch.ones(3, requires_grad=True)
    gate = torch.sigmoid(w)
    gate[0] = 0.0
    gate.sum().backward()

Right:

    import torch

    w = torch.ones(3, requires_grad=True)
    gate = torch.sigmoid(w) * torch.tensor([0.0, 1.0, 1.0])
    gate.sum().backward()
    print(w.grad)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
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
    """A tensor that autograd saved, or whose memory others share, changed in place."""
    saved = raised.says(_SAVED, "RuntimeError")
    other = raised.says(_OTHERS, "RuntimeError")
    if not saved and not other:
        return None
    changes = raised.autograd.in_place(saved["op"] if saved and saved["op"] else "")
    if saved:
        # A weight reaches its operation by way of t() or as_strided(): to name that would help nobody.
        of = f", the result of {saved['op']}," if saved["op"] and saved["op"] not in _VIEWS else ""
        message = f"a {saved['type']} that backward() needs{of} was changed in place after the forward pass saved it"
        why = (
            f"It was saved at version {saved['was']} and is at version {saved['is']} now: each in-place change counts one. The "
            "gradient would be wrong, so torch refuses. The failing line is only where it was noticed."
        )
        if changes.by_optimizer:
            why += " optimizer.step() changes the weights in place, and this backward pass goes through a step from before."
        fix = changes.fix
    elif "memory location" in raised.message:
        message = "an in-place operation writes to a tensor whose elements share memory"
        why = "expand() and broadcasting give one element many places, so writing to one of them changes the others."
        fix = "make real memory first: expand(…).clone(), or repeat(…), before the in-place operation"
    elif "leaf" in raised.message:
        message = "a leaf that requires grad is changed in place, and its history would be lost"
        why = "Autograd would have to differentiate through the change of a leaf, which has no past."
        fix = "write it out of place (x = x + y), or do it inside `with torch.no_grad():` if it is an update of a parameter"
    else:
        message = "a view is changed in place, and autograd cannot follow the change to its base"
        why = "unbind, split, chunk and iterating over a tensor give views that share one base and may not be changed in place."
        fix = "write it out of place, or clone() the view first"
    return FAULT.finding(
        message,
        [*changes.places, *raised.use],
        reason=why,
        fix=Fix(fix, edits=changes.edits if saved else ()),
        certain=not changes.places,
    )


_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor that the graph saved is changed before the backward pass."""
    for seen in found.of("saved changed"):
        node = seen.node("use")
        fix = Fix("write the change out of place, or do it after the backward pass")
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and type(node.op) in _SIGNS:
            name, value = node.target.id, seen.text("use", node.value)
            text = f"{name} = {name} {_SIGNS[type(node.op)]} {value}"
            if isinstance(node.value, (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)):
                fix = Fix(f"out of place: {text}", edits=seen.replace("use", node, text))
        yield FAULT.finding(
            f"this changes a tensor in place that {seen.data['op']} saved for its backward pass",
            seen.places(),
            reason=f"The backward pass in line {seen.line('end')} needs the value as it was.",
            fix=fix,
        )
    for seen in found.of("expanded written"):
        birth = seen.node("birth")
        yield FAULT.finding(
            "this changes an expanded tensor in place: several of its elements are one place in memory",
            seen.places(),
            fix=Fix(
                "make real memory of it: .clone() behind expand()",
                safe=True,
                edits=seen.after("birth", birth, ".clone()"),
            ),
        )
    for seen in found.of("leaf changed"):
        yield FAULT.finding(
            "this changes a leaf that requires a gradient in place",
            seen.places(),
            fix=Fix("do it in `with torch.no_grad():`, or out of place"),
        )
