"""A hook keeps what it sees, or is registered again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
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
