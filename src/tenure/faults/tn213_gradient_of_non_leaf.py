"""`.grad` is read on a non-leaf tensor, but backward() fills it only for leaves.

## What it means

After a warning, the program fails with AttributeError, 'NoneType' object has no attribute ..., on x.grad. An
optimizer raises ValueError, "can't optimize a non-leaf Tensor".

.to(), .double(), reshaping and arithmetic return a new tensor, which is not a leaf.

## Why it hurts

The gradient that the program needs is never stored, and a parameter that is not a leaf is not trained.

## Example

    import torch

    x = torch.ones(3, requires_grad=True).double()
    (x ** 2).sum().backward()
    print(x.grad.sign())

## Use instead

    import torch

    x = torch.ones(3).double().requires_grad_()
    (x ** 2).sum().backward()
    print(x.grad.sign())

## How to be sure

Print `x.is_leaf` and `x.grad_fn`: False, and the operation that created the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN213", "gradient-of-non-leaf", __doc__, labels={"end": "grad requested here"})

_SAYS = r"can't optimize a non-leaf Tensor|hooks cannot be registered on non-leaf tensors|\.grad attribute of a Tensor that is not a leaf Tensor"


def in_exception(raised: Raised) -> Finding | None:
    """The .grad of a non-leaf tensor is read, which stays None."""
    direct = raised.says(_SAYS)
    grad = None if direct else raised.autograd.missing_grad
    if not direct and (grad is None or grad.is_leaf is not False):
        return None
    name = grad.name if grad else ""
    what = f"`{name}`" if name else "this tensor"
    born = [grad.birth] if grad and grad.birth else []
    return FAULT.finding(
        f"{what} is not a leaf tensor: it is the result of an operation, and its .grad stays None",
        [*born, *raised.use],
        reason="backward() fills .grad only for leaves: the tensors on which requires_grad was set. .to(), .cuda(), .double(), "
        "reshaping and arithmetic return a new tensor, which is not a leaf.",
        fix=Fix(
            f"convert first, then call `requires_grad_()` on {what}; or call `{name or 'x'}.retain_grad()` before backward()"
        ),
        certain=bool(direct) or bool(grad and grad.seen),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """`.grad` of a computed tensor is read."""
    for fact in found.of(facts.GradientOfNonLeaf):
        yield FAULT.finding(
            "this is not a leaf tensor: its .grad stays None",
            fact.places(),
            reason="It was computed from the tensor that requires grad. backward() fills .grad only for leaves.",
            fix=Fix("convert first and call `requires_grad_()` on the result, or call `retain_grad()` on this tensor"),
        )
