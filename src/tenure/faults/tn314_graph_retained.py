"""retain_graph=True or create_graph=True keeps the autograd graph.

## What it means

backward() frees the graph's saved tensors as it runs; retain_graph=True and create_graph=True keep them. If
the loss of this step still references that of the previous step, the graphs of all steps are kept. With
create_graph=True, each gradient references its graph, and the graph references the parameter that owns the
gradient: a cycle.

## Why it hurts

Memory and time grow with each step, because each backward() runs through the graphs of all earlier steps.

## Example

    cost = cost + step_cost
    cost.backward(retain_graph=True)

## Use instead

    step_cost.backward()
    grads = torch.autograd.grad(loss, params, create_graph=True)   # for second derivatives

## How to be sure

Remove retain_graph=True. If backward() then fails with "a second time", this step still references an earlier
graph. For create_graph=True, `p.grad.requires_grad` is True.
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
    from tenure.findings import Finding

FAULT = Fault("TN314", "graph-retained", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """The graph that grew is one that backward() was called to keep."""
    if not leak.carries_graph or not leak.retaining or leak.what == "shared":
        return None
    cycle = leak.holder is not None and leak.holder.kind == "cycle"
    if not cycle and not (leak.what == "nodes" or leak.has("autograd")):
        return None
    what = (
        "create_graph=True makes each gradient reference its own graph"
        if cycle
        else (f"retain_graph=True keeps the graph of every step, through {growth.name(leak)}")
    )
    return growth.told(
        FAULT,
        leak,
        f"{what} ({growth.rate(leak)})",
        Fix(
            "set `.grad = None` after use, or compute the gradients with `torch.autograd.grad(…, create_graph=True)`"
            if cycle
            else "call backward() on this step's loss only, without retain_graph=True, and detach what the next step uses"
        ),
        "A graph that backward() does not free stays in memory as long as anything references it.",
        leak.retaining[:1],
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A graph is retained or created in every iteration."""
    for retained_growing in found.of(facts.RetainedGrowing):
        yield FAULT.finding(
            "retain_graph=True keeps the graphs of all earlier iterations, and backward() runs through them",
            retained_growing.places(),
            fix=Fix("call backward() on the current iteration's loss only, and remove retain_graph=True"),
            labels={"holder": "graph retained here"},
        )
    for graph_created in found.of(facts.GraphCreated):
        yield FAULT.finding(
            "backward(create_graph=True) creates a reference cycle: gradients are never reset",
            graph_created.places(),
            reason="Each weight references its .grad, whose graph references the weight. The garbage collector cannot free this cycle.",
            fix=Fix(
                "set `p.grad = None` after use, or compute the gradients with `torch.autograd.grad(..., create_graph=True)`"
            ),
            labels={"holder": "graph created here"},
        )
