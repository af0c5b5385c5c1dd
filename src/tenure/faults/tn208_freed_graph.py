"""backward() runs through an autograd graph that was already freed.

## What it means

PyTorch raises RuntimeError, "Trying to backward through the graph a second time"; with torch.compile,
"compiled with non-empty donated buffers".

backward() frees the graph's saved tensors as it runs. Two losses that share a part of the graph, or a value
that carries the graph of an earlier iteration, lead the second call into the freed part.

## Why it hurts

The program stops. retain_graph=True hides the error, but it keeps the graph's memory, and in a loop memory
and time grow with each step.

## Example

    import torch

    w = torch.ones(3, requires_grad=True)
    features = torch.exp(w)
    first, second = features.sum(), (features ** 2).sum()
    first.backward()
    second.backward()

## Use instead

    import torch

    w = torch.ones(3, requires_grad=True)
    features = torch.exp(w)
    first, second = features.sum(), (features ** 2).sum()
    (first + second).backward()
    print(w.grad)

## How to be sure

Only as a test, call the first backward() with `retain_graph=True`. If the error disappears, both calls share
a part of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.autograd import Shared
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN208", "freed-graph", __doc__, labels={"end": "freed here"})

_AGAIN = r"Trying to backward through the graph a second time|saved (?:tensors?|intermediate values|variables).* (?:have already been|after it has been) freed|already been freed"
_DONATED = r"compiled with non-empty donated buffers"


def in_exception(raised: Raised) -> Finding | None:
    """A backward pass needs saved tensors that an earlier backward pass freed."""
    donated = raised.says(_DONATED)
    if not donated and not raised.says(_AGAIN, "RuntimeError"):
        return None
    shared, earlier = raised.autograd.backwards
    names = ", ".join(f"`{name}`" for name in shared.names) if shared else ""
    if donated:
        message = "a compiled backward pass cannot retain its graph, because its buffers are donated"
        why = "The backward pass was compiled without retain_graph. It frees the saved tensors while it runs."
        fix = "add the losses and call backward() once, or set `torch._functorch.config.donated_buffer = False`"
    else:
        of = f"the graph of {names}" if names else "a graph"
        message = f"backward() needs {of}, which an earlier backward() already freed"
        why = "backward() frees the graph's saved tensors as it runs. "
        why += "Both calls share part of the graph, and the first one freed it."
        fix = _repair(shared, several=bool(earlier))
    return FAULT.finding(
        message,
        [*(shared.places if shared else []), *earlier, *raised.use],
        reason=why,
        fix=Fix(fix),
        certain=True,
    )


def _repair(shared: Shared | None, *, several: bool) -> str:
    name = shared.names[0] if shared and shared.names else ""
    if several:
        return (
            "add the losses and call backward() once, or detach the part that only one of them needs"
            + (f" (`{name}.detach()`)" if name else "")
            + "; use retain_graph=True only if both must run through it"
        )
    if shared and shared.is_list:
        return f"empty `{name}` after each backward(), or store detached values in it"
    if not name:  # the earlier pass may be in this iteration, or in one before
        return "detach the shared value where its gradient is not needed, or add the losses and call backward() once"
    return (
        f"compute `{name}` inside the loop, or detach it: "
        "a value that several iterations use must not carry the first one's graph"
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A second backward pass runs through a graph that the first one freed."""
    for freed_graph in found.of(facts.FreedGraph):
        if not freed_graph.carried:
            yield FAULT.finding(
                f"backward() needs a graph that backward() in line {freed_graph.line('end')} already freed",
                freed_graph.places(),
                reason="backward() frees the graph's saved tensors as it runs.",
                fix=Fix("add the losses and call backward() once, or detach the part that only one of them needs"),
            )
    for compiled_retained in found.of(facts.CompiledRetained):
        yield FAULT.finding(
            "this backward pass of a compiled function cannot retain its graph: its buffers are donated",
            compiled_retained.places(),
            fix=Fix("add the losses and call backward() once, or set `torch._functorch.config.donated_buffer = False`"),
        )
