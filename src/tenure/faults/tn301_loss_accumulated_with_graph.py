"""A loss is added up together with its autograd graph.

A loss refers to the graph of operations that made it. backward() frees what the graph saved, but not its nodes: a sum
of losses, or a list of them, keeps the nodes of every step, and what no backward pass has freed. Memory grows a
little with each step, and no tensor shows it.

Wrong:

    total = 0.0
    for x, y in batches:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss

Right:

    total += loss.item()         # a number; on a GPU it waits for the device
    total += loss.detach()       # a tensor without a graph; waits for nothing
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

FAULT = Fault("TN301", "loss-accumulated-with-graph", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Numbers that carry their graph are added up or collected."""
    if not leak.carries_graph or not leak.is_scalar or leak.what not in ("nodes", "buffers"):
        return None
    if leak.has("saved"):
        return None
    how = "adds up" if leak.what == "nodes" else "collects"
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} {how} numbers together with the autograd graphs behind them: {growth.rate(leak)}",
        growth.edited(leak, ".item()", "keep the number"),
        "A loss, or any number made of one, refers to the graph that made it: who keeps it keeps the graph, and what "
        "that saved.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A loss is summed up or collected with its graph."""
    for seen in found.of("graph kept"):
        if seen.data["scalar"]:
            edits = tuple(edit for node in seen.data["nodes"] for edit in seen.after("holder", node, ".detach()"))
            freed = seen.data["state"] == "freed"
            yield FAULT.finding(
                "this keeps a loss with its autograd graph from every turn of the loop",
                seen.places(),
                reason="The backward pass has freed what the graph saved; its nodes stay as long as the tensor does."
                if freed
                else "Nothing ever differentiates it, so all that the graph saved stays as long as the tensor does.",
                fix=Fix(
                    "keep the value alone: .detach(), or .item() for a Python number", safe=bool(edits), edits=edits
                ),
                evidence={"backward pass": "in the loop" if freed else "none"},
            )
