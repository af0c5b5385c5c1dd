"""A hook stores what it receives, or is registered repeatedly.

## What it means

A hook runs in every forward or backward pass until its handle is removed, also during evaluation. What it
stores or closes over stays in memory as long as its module. If every step registers a new hook, hooks
accumulate.

## Why it hurts

Memory grows with each pass. Repeatedly registered hooks also make each pass slower.

## Example

    for x in batches:
        layer.register_forward_hook(lambda module, args, out: seen.append(out))
        model(x)

## Use instead

    handle = layer.register_forward_hook(lambda module, args, out: seen.update(last=out.detach()))
    try:
        model(x)
    finally:
        handle.remove()

## How to be sure

Print `len(layer._forward_hooks)` in the loop: it grows if hooks accumulate. Print the length of the container
that the hook fills.
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

FAULT = Fault("TN304", "hook-keeps-activations", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """The tensors are retained by a hook, or a hook stored them."""
    if leak.what != "buffers" or (leak.holder is not None and leak.holder.kind == "cycle"):
        return None
    store = growth.stored(leak)
    by_hook = store is not None and bool(store.function) and store.function in leak.hooks
    if not leak.has("hook") and not by_hook:
        return None
    what = (
        "hooks that are never removed keep" if leak.has("hook") else f"{growth.name(leak)}, which a hook fills, keeps"
    )
    return growth.told(
        FAULT,
        leak,
        f"{what} the tensors of every pass ({growth.rate(leak)})",
        Fix(
            "call `remove()` on the handle that register_…_hook() returns; store numbers, or only the last detached tensor"
        ),
        "A hook runs in every pass, also during evaluation. What it stores or closes over stays in memory as long as its "
        "module.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A hook fills a list, or is registered repeatedly."""
    for hook_keeps in found.of(facts.HookKeeps):
        drained = hook_keeps.drained
        yield FAULT.finding(
            "this hook stores activations of every forward pass"
            + (", and only a backward pass removes them" if drained else ""),
            hook_keeps.places(),
            reason="A forward pass without gradients is never followed by a backward pass." if drained else "",
            fix=Fix("store them only if `torch.is_grad_enabled()`, and clear them after use"),
        )
    for hook_each_step in found.of(facts.HookEachStep):
        yield FAULT.finding(
            "every iteration registers a hook, and none is removed",
            hook_each_step.places(),
            reason="The module keeps every hook, and each hook keeps what it closes over.",
            fix=Fix("call `remove()` on the returned handle, or register the hook once, before the loop"),
            labels={"holder": "hook registered here"},
        )
