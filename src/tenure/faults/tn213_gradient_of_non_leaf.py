"""The gradient of a tensor that is no leaf is read, and was never kept.

What happens: AttributeError 'NoneType' object has no attribute …, on x.grad, after a warning; ValueError "can't
optimize a non-leaf Tensor".

Why: backward() fills .grad of leaves only. .to(), .double(), reshaping and arithmetic make a new tensor, which is none.

Wrong:

    import torch

    x = torch.ones(3, requires_grad=True).double()
    (x ** 2).sum().backward()
    print(x.grad.sign())

Right:

    import torch

    x = torch.ones(3).double().requires_grad_()
    (x ** 2).sum().backward()
    print(x.grad.sign())
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN213", "gradient-of-non-leaf", __doc__)

_SAYS = r"can't optimize a non-leaf Tensor|hooks cannot be registered on non-leaf tensors|\.grad attribute of a Tensor that is not a leaf Tensor"


def in_exception(raised: Raised) -> Finding | None:
    """The .grad of a tensor that is no leaf, which stays None."""
    direct = raised.says(_SAYS)
    grad = None if direct else raised.autograd.missing_grad
    if not direct and (grad is None or grad.is_leaf is not False):
        return None
    name = grad.name if grad else ""
    what = f"`{name}`" if name else "this tensor"
    born = [grad.birth] if grad and grad.birth else []
    return FAULT.finding(
        f"{what} is no leaf: it is the result of an operation, and its .grad stays None",
        [*born, *raised.use],
        reason="backward() fills .grad only for leaves, the tensors that requires_grad was set on. .to(), .cuda(), .double(), "
        "reshaping and arithmetic give a new tensor, which is no leaf.",
        fix=Fix(
            f"make {what} final first and then call requires_grad_() on it, or call {name or 'x'}.retain_grad() before backward()"
        ),
        certain=bool(direct) or bool(grad and grad.seen),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """`.grad` of a tensor that was computed."""
    for seen in found.of("gradient of non-leaf"):
        yield FAULT.finding(
            "this tensor is not a leaf: its .grad stays None",
            seen.places(),
            reason="It was computed from the tensor that requires a gradient. backward() fills .grad of leaves only.",
            fix=Fix("convert first and call requires_grad_() on the result, or call retain_grad() on this one"),
        )
