"""A hook keeps what it sees, or is registered again and again.

A hook runs in every forward or backward pass, until its handle is removed: in evaluation too. What it stores, and what
it closes over, lives as long as the module that it is registered on; registered anew in each step, hooks pile up.

Wrong:

    for x in batches:
        layer.register_forward_hook(lambda module, args, out: seen.append(out))
        model(x)

Right:

    handle = layer.register_forward_hook(lambda module, args, out: seen.update(last=out.detach()))
    try:
        model(x)
    finally:
        handle.remove()
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

FAULT = Fault("TN304", "hook-keeps-activations", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """What grew is held by a hook, or was put where it is by one."""
    if leak.what != "buffers" or (leak.holder is not None and leak.holder.kind == "cycle"):
        return None
    store = growth.stored(leak)
    by_hook = store is not None and bool(store.function) and store.function in leak.hooks
    if not leak.has("hook") and not by_hook:
        return None
    what = (
        "hooks that are never removed keep" if leak.has("hook") else f"a hook adds to {growth.name(leak)}, which keeps"
    )
    return growth.told(
        FAULT,
        leak,
        f"{what} what they saw: {growth.rate(leak)}",
        Fix(
            "keep the handle that register_…_hook() gives and remove() it; keep numbers, or one detached tensor, not all"
        ),
        "A hook runs in every forward pass, also in evaluation, and what it closes over lives as long as its module.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A hook fills a list, or is registered again and again."""
    for seen in found.of("hook keeps"):
        drained = seen.data["drained"]
        yield FAULT.finding(
            "this hook keeps activations of every forward pass"
            + (", and only a backward pass takes them out again" if drained else ""),
            seen.places(),
            reason="Forward passes without gradients have no backward pass." if drained else "",
            fix=Fix("keep them only if torch.is_grad_enabled(), and clear them after use"),
        )
    for seen in found.of("hook each step"):
        yield FAULT.finding(
            "a hook is registered in every turn of the loop, and none is removed",
            seen.places(),
            reason="The module keeps every hook, and each hook what it holds.",
            fix=Fix("keep the handle and call handle.remove(), or register once, before the loop"),
        )
