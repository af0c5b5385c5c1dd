"""Outputs or activations are kept together with their autograd graph.

A tensor that was made with gradients on refers to its graph, and that to everything the operations saved for
backward: activations, inputs, weights. In a list, a dict or an attribute that outlives the step, each of them keeps all
of it. clone() and x[...] do not help, they are operations of the same graph.

Wrong:

    outputs.append(model(x))

Right:

    outputs.append(model(x).detach())
    with torch.no_grad():                # if no gradient is wanted at all
        outputs.append(model(x))
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

FAULT = Fault("TN302", "outputs-kept-with-graph", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Tensors that carry their graph pile up, or what such a graph saved."""
    if not leak.carries_graph or leak.what not in ("nodes", "buffers"):
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} keeps tensors together with their autograd graphs: {growth.rate(leak)}",
        growth.edited(leak, ".detach()", "keep the values without the graph"),
        "A tensor made with gradients on refers to the graph that made it, and that to what it saved for backward.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Outputs or gradients are collected from turn to turn."""
    for seen in found.of("graph kept"):
        if not seen.data["scalar"]:
            edits = tuple(edit for node in seen.data["nodes"] for edit in seen.after("holder", node, ".detach()"))
            yield FAULT.finding(
                "this keeps a tensor with its autograd graph from every turn of the loop",
                seen.places(),
                reason="Nothing differentiates it any more, but its graph, and what that saved, stay with it.",
                fix=Fix("keep the value without the graph: .detach()", safe=bool(edits), edits=edits),
            )
    for seen in found.of("gradients kept"):
        yield FAULT.finding(
            "gradients are collected in every turn, and each turn makes new ones",
            seen.places(),
            reason="Tensors are hashed by identity, so a set keeps every one of them.",
            fix=Fix("keep names, shapes or numbers"),
        )
