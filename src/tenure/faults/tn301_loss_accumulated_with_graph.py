"""A loss is accumulated together with its autograd graph.

## What it means

A loss references the graph of the operations that computed it. A sum or a list of losses keeps the graph's
nodes of every step. It also keeps saved tensors that no backward() has freed.

## Why it hurts

Memory grows a little with each step, and no tensor in the program explains it. Long trainings run out of
memory.

## Example

    total = 0.0
    for x, y in batches:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss

## Use instead

    total += loss.item()         # a number; on a GPU it waits for the device
    total += loss.detach()       # a tensor without a graph; does not wait

## How to be sure

Print `total.grad_fn` after a few steps: anything but None means that the sum carries a graph.
`tenure run train.py` reports the growth per step.
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

FAULT = Fault("TN301", "loss-accumulated-with-graph", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Scalars that carry their graph are accumulated or collected."""
    if not leak.carries_graph or not leak.is_scalar or leak.what not in ("nodes", "buffers"):
        return None
    if leak.has("saved"):
        return None
    how = "accumulates" if leak.what == "nodes" else "collects"
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} {how} tensors that still carry their autograd graph ({growth.rate(leak)})",
        growth.edited(leak, ".item()", "store a Python number instead")
        if leak.number
        else growth.edited(leak, ".detach()", "store the value without its graph"),
        "A loss, and anything computed from it, references its autograd graph. While the tensor is alive, so are the "
        "graph and whatever it saved.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A loss is accumulated or collected with its graph."""
    for fact in found.of(facts.GraphKept):
        if fact.scalar:
            edits = tuple(edit for node in fact.nodes for edit in fact.after("holder", node, ".detach()"))
            freed = fact.state == "freed"
            yield FAULT.finding(
                "every iteration stores a loss together with its autograd graph",
                fact.places(),
                reason="backward() freed the tensors that the graph saved. The graph's nodes stay in memory as long as the loss does."
                if freed
                else "No backward pass uses this graph, so everything that it saved stays in memory as long as the loss does.",
                fix=Fix(
                    "store the value without its graph: `.detach()`, or `.item()` for a Python number",
                    safe=bool(edits),
                    edits=edits,
                ),
                evidence={"backward pass": "in the loop" if freed else "none"},
            )
