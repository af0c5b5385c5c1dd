"""Outputs or activations are kept together with their autograd graph.

## What it means

A tensor that was computed with gradients enabled references its graph. The graph references everything that
it saved for backward(): activations, inputs, weights. clone() and x[...] do not help, because they are
operations of the same graph. deepcopy() of an object that keeps such a tensor raises RuntimeError, "Only
Tensors created explicitly by the user … support the deepcopy protocol". Sending it to another process fails
with "Cowardly refusing to serialize non-leaf tensor which requires_grad".

## Why it hurts

Each tensor in a list, a dict or an attribute keeps its whole graph, which is often many times its own size.

## Example

    outputs.append(model(x))

## Use instead

    outputs.append(model(x).detach())
    with torch.no_grad():                # if no gradient is needed at all
        outputs.append(model(x))

## How to be sure

Print `outputs[-1].grad_fn`: anything but None means that the tensor carries a graph. `tenure run train.py`
reports the growth per step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN302", "outputs-kept-with-graph", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """An object that keeps a tensor with its graph is copied, or sent to another process."""
    if raised.says(r"refusing to serialize non-leaf tensor", "RuntimeError"):
        return FAULT.finding(
            "a tensor that still carries its autograd graph cannot be sent to another process",
            raised.use,
            reason="A tensor that was computed with gradients enabled references its autograd graph, and a graph cannot leave its process.",
            fix=Fix("send the values without their graph: `x.detach()`"),
            labels={"use": "sent here"},
        )
    if not raised.says(r"graph leaves\) support the deepcopy protocol", "RuntimeError"):
        return None
    name, set_here, seen = raised.with_graph
    what = f"`{name}`" if name else "a tensor of the copied object"
    return FAULT.finding(
        f"deepcopy() cannot copy {what}: it still carries its autograd graph",
        [*([set_here] if set_here else []), *raised.use],
        reason="A tensor that was computed with gradients enabled references its autograd graph, and a graph cannot be copied.",
        fix=Fix(
            "store the value without its graph, `x.detach()`, or delete it before the copy; a model's weights alone are "
            "`copy.deepcopy(model.state_dict())`"
        ),
        certain=seen,
        labels={"birth": "set here", "use": "copied here"},
    )


def in_run(leak: Leak) -> Finding | None:
    """Tensors that carry their graph accumulate, or tensors that such a graph saved."""
    if not leak.carries_graph or leak.what not in ("nodes", "buffers"):
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} keeps tensors that still carry their autograd graph ({growth.rate(leak)})",
        growth.edited(leak, ".detach()", "store the values without their graph"),
        "A tensor that was computed with gradients enabled references its autograd graph. The graph references every "
        "tensor that it saved for backward().",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Outputs or gradients are collected across iterations."""
    for graph_kept in found.of(facts.GraphKept):
        if not graph_kept.scalar:
            edits = tuple(edit for node in graph_kept.nodes for edit in graph_kept.after("holder", node, ".detach()"))
            yield FAULT.finding(
                "every iteration stores a tensor together with its autograd graph",
                graph_kept.places(),
                reason="No later backward() uses it, but its graph stays in memory with everything that the graph saved.",
                fix=Fix("store the value without its graph: `.detach()`", safe=bool(edits), edits=edits),
            )
    for gradients_kept in found.of(facts.GradientsKept):
        yield FAULT.finding(
            "every iteration collects gradients, and each backward pass creates new ones",
            gradients_kept.places(),
            reason="A set compares tensors by identity, so it keeps every one of them."
            if gradients_kept.in_set
            else "zero_grad() sets gradients to None, so each backward pass allocates new ones. Nothing reads those kept here.",
            fix=Fix("store the names, shapes or numbers instead"),
        )
    for copied in found.of(facts.GraphCopied):
        deep = copied.how == "deepcopy"
        yield FAULT.finding(
            "deepcopy() cannot copy a tensor that still carries its autograd graph"
            if deep
            else "a tensor that still carries its autograd graph cannot be sent to another process",
            copied.places(),
            reason="A tensor that was computed with gradients enabled references its graph, which is neither copied nor sent.",
            fix=Fix("store the value without its graph: `.detach()`" if deep else "send `x.detach()`"),
            labels={"escape": "stored here", "use": "copied here" if deep else "sent here"},
        )
