"""Recurrent state carries its autograd graph from one step to the next.

## What it means

Each state is computed from the previous one, so its graph contains the previous graph, back to the first
step.

## Why it hurts

The second backward() reaches the part that the first one freed, and fails. With retain_graph=True it does not
fail, but memory and time grow with each step.

## Example

    for x, y in sequence:
        out, hidden = rnn(x, hidden)
        criterion(out, y).backward()

## Use instead

    for x, y in sequence:
        hidden = hidden.detach()           # for an LSTM: tuple(h.detach() for h in hidden)
        out, hidden = rnn(x, hidden)
        criterion(out, y).backward()

## How to be sure

Print `hidden.grad_fn` at the start of an iteration: anything but None means that the state carries the graph
of the previous step.
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
    from tenure.analysis.leaks.lines import Store
    from tenure.analysis.leaks.model import Leak
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN303", "state-carries-graph", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """The second backward pass fails because a state carries the first one's graph into it."""
    if not raised.says(r"Trying to backward through the graph a second time", "RuntimeError"):
        return None
    carried = raised.autograd.carried
    if carried is None:
        return None
    name = carried.name
    where = carried.source.place("birth", carried.step.node)
    return FAULT.finding(
        f"`{name}` carries the graph of the previous step, which backward() already freed",
        [where, *raised.use],
        reason=f"backward() frees the graph of its step. `{name}` was computed in that step and still references its graph, so "
        "the next backward() reaches it.",
        fix=Fix(f"detach it between steps: `{name} = {name}.detach()` (for a tuple of states, detach each of them)"),
        certain=False,
    )


def in_run(leak: Leak) -> Finding | None:
    """A state that each step computes from the previous one carries the graphs of all steps."""
    store = growth.stored(leak)
    if leak.what not in ("nodes", "buffers") or not leak.carries_graph or leak.grows_at is not None:
        return None
    if (leak.what == "nodes" and leak.is_scalar) or store is None or store.uses_itself != "call":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} carries the autograd graph of every earlier step ({growth.rate(leak)})",
        _written_without(store)
        if store.how == "write"
        else growth.detached_in_loop(leak, "detach the state between steps"),
        "Each state is computed from the previous one, so its graph reaches back to the first step.",
    )


def _written_without(store: Store) -> Fix:
    """What is written into the state keeps its graph for this step's own use, so this changes no line by itself."""
    value = f"({store.value})" if store.loose else store.value
    return Fix(f"write the value without its graph: `{value}.detach()`")


def in_source(found: Found) -> Iterator[Finding]:
    """A state is carried across iterations with its graph."""
    for freed_graph in found.of(facts.FreedGraph):
        if freed_graph.carried:
            yield FAULT.finding(
                "backward() needs the graph of the previous iteration, which its own backward() already freed",
                freed_graph.places(),
                reason="The state was computed in the previous iteration and still references that iteration's graph.",
                fix=Fix("detach the state between iterations: `state = state.detach()`"),
                labels={"end": "graph freed here"},
            )
    for retained_growing in found.of(facts.RetainedGrowing):
        if retained_growing.state:
            yield FAULT.finding(
                "a state carries the graphs of all iterations, and retain_graph=True keeps them in memory",
                retained_growing.places(),
                fix=Fix("detach the state between iterations, `state = state.detach()`, and remove retain_graph=True"),
            )
    for state_carried in found.of(facts.StateCarried):
        yield FAULT.finding(
            "a state carries the autograd graphs of all iterations of this loop",
            state_carried.places(),
            fix=Fix("detach the state between iterations: `state = state.detach()`"),
        )
