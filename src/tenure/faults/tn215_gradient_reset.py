"""A gradient is read after it was reset, or is never reset.

What happens: AttributeError or TypeError on None where a .grad is read; or, where it is never reset, wrong gradients
without a word.

Why: zero_grad() takes gradients away: since torch 2.0 it sets them to None. Until the next backward() there is nothing
to read. Without it, each backward() adds to the last one's.

Wrong:

    import torch

    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.zero_grad()
    print(layer.weight.grad.norm())

Right:

    import torch

    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2)).sum().backward()
    print(layer.weight.grad.norm())
    optimizer.zero_grad()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Edit, Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
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


def in_source(found: Found) -> Iterator[Finding]:
    """A gradient is read after zero_grad()."""
    for seen in found.of("gradient reset"):
        node = seen.node("end")
        edits: tuple[Edit, ...] = ()
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            edits = seen.replace("end", node, f"{seen.text('end', node.func)}(set_to_none=False)")
        yield FAULT.finding(
            f"this gradient was reset to None in line {seen.line('end')}",
            seen.places(),
            reason="zero_grad() sets gradients to None since torch 2.0; the next backward pass makes new ones.",
            fix=Fix("read it before the reset, or use zero_grad(set_to_none=False)", edits=edits),
        )
    for seen in found.of("gradient reset before step"):
        yield FAULT.finding(
            f"the gradients of this step were reset in line {seen.line('end')}, right before it",
            seen.places(),
            reason="step() goes by the gradients that backward() left. After zero_grad() there are none.",
            fix=Fix("call zero_grad() before backward(), or after step()"),
        )
    for seen in found.of("gradient never reset"):
        yield FAULT.finding(
            "gradients are added up over all turns of this loop: nobody resets them",
            seen.places(),
            reason="backward() adds to .grad. Without zero_grad() each step uses the sum of all turns so far.",
            fix=Fix("call optimizer.zero_grad() in every turn"),
        )
