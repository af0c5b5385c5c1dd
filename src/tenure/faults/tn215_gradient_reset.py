"""A gradient is read after it was reset, or gradients are never reset.

## What it means

The program fails with AttributeError or TypeError on None where it reads a .grad. If gradients are never
reset, nothing fails, but the gradients are wrong.

Since torch 2.0, zero_grad() sets gradients to None. Until the next backward() there is nothing to read.
Without a reset, each backward() adds to the previous gradients.

## Why it hurts

Gradients that are never reset grow with each step, so training uses the sum over all iterations.

## Example

    import torch

    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.zero_grad()
    print(layer.weight.grad.norm())

## Use instead

    import torch

    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2)).sum().backward()
    print(layer.weight.grad.norm())
    optimizer.zero_grad()

## How to be sure

Print `layer.weight.grad` before the failing line: it is None. For gradients that are never reset, run
backward() twice on the same batch, without a step: `layer.weight.grad` doubles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Edit, Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN215", "gradient-reset", __doc__, labels={"end": "reset here"})


def in_exception(raised: Raised) -> Finding | None:
    """A .grad is None because it was reset, or because no backward pass has filled it yet."""
    grad = raised.autograd.missing_grad
    if grad is None or grad.is_leaf is False:
        return None
    resets = raised.autograd.resets()
    if not resets:
        return None
    return FAULT.finding(
        f"`{grad.name}.grad` is None: it was reset, and no later backward() filled it",
        [*resets[-1:], *raised.use],
        reason="Since torch 2.0, zero_grad() sets gradients to None instead of filling them with zeros.",
        fix=Fix(
            "read the gradient between backward() and zero_grad(), call `zero_grad(set_to_none=False)` to get zeros, or "
            "handle None"
        ),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A gradient is read after zero_grad()."""
    for gradient_reset in found.of(facts.GradientReset):
        node = gradient_reset.node("end")
        edits: tuple[Edit, ...] = ()
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            edits = gradient_reset.replace("end", node, f"{gradient_reset.text('end', node.func)}(set_to_none=False)")
        yield FAULT.finding(
            f"this gradient was already reset to None in line {gradient_reset.line('end')}",
            gradient_reset.places(),
            reason="Since torch 2.0, zero_grad() sets gradients to None. The next backward() creates new ones.",
            fix=Fix("read it before the reset, or call `zero_grad(set_to_none=False)`", edits=edits),
        )
    for gradient_reset_before_step in found.of(facts.GradientResetBeforeStep):
        yield FAULT.finding(
            f"step() has no gradients: line {gradient_reset_before_step.line('end')} reset them just before",
            gradient_reset_before_step.places(),
            reason="step() uses the gradients that backward() computed. After zero_grad() there are none.",
            fix=Fix("call zero_grad() before backward(), or after step()"),
        )
    for gradient_never_reset in found.of(facts.GradientNeverReset):
        yield FAULT.finding(
            "gradients accumulate across iterations: this loop never resets them",
            gradient_never_reset.places(),
            reason="backward() adds to .grad. Without zero_grad() each step uses the sum over all iterations so far.",
            fix=Fix("call `optimizer.zero_grad()` in every iteration"),
            labels={"use": "accumulated here", "holder": "used here"},
        )
