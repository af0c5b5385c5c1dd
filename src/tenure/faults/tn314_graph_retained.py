"""retain_graph or create_graph keeps the autograd graph.

backward() frees the graph as it goes; retain_graph=True and create_graph=True keep it. If the loss of this step still
refers to that of the last, the graphs of all steps are kept and gone through again in each. With create_graph=True every
gradient refers to the graph that made it, and that to the parameters whose gradients they are: a circle.

Wrong:

    cost = cost + step_cost
    cost.backward(retain_graph=True)

Right:

    step_cost.backward()
    grads = torch.autograd.grad(loss, params, create_graph=True)   # if second derivatives are wanted
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.check.facts import Found
    from tenure.findings import Finding

FAULT = Fault("TN314", "graph-retained", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """The graph that grew is one that backward was told to keep."""
    if not leak.carries_graph or not leak.retaining or leak.what == "shared":
        return None
    cycle = leak.holder is not None and leak.holder.kind == "cycle"
    if not cycle and not (leak.what == "nodes" or leak.has("autograd")):
        return None
    what = (
        "create_graph=True makes each gradient hold its own graph"
        if cycle
        else (f"retain_graph=True keeps the graph of every step, by way of {growth.name(leak)}")
    )
    return growth.told(
        FAULT,
        leak,
        f"{what}: {growth.rate(leak)}",
        Fix(
            "set .grad to None when it was used, or take the gradients with torch.autograd.grad(…, create_graph=True)"
            if cycle
            else "call backward() on this step's loss alone, without retain_graph=True; detach what is carried on"
        ),
        "A graph that backward does not free lives as long as anything refers to it.",
        leak.retaining[:1],
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A graph is retained or created in every turn."""
    for seen in found.of("retained growing"):
        yield FAULT.finding(
            "retain_graph=True keeps the graphs of all earlier turns, and this backward pass goes through all of them",
            seen.places(),
            fix=Fix("backward the current turn's loss alone, and drop retain_graph"),
        )
    for seen in found.of("graph created"):
        yield FAULT.finding(
            "backward(create_graph=True) ties gradients and weights together, and nobody resets the gradients",
            seen.places(),
            reason="Each weight's .grad has a graph that refers to the weight: a cycle that is not collected.",
            fix=Fix("set p.grad = None after use, or take gradients with torch.autograd.grad(..., create_graph=True)"),
        )
