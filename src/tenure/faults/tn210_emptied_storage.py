"""A tensor is used after its storage was emptied under it.

What happens: RuntimeError "setStorage: … out of bounds for storage of size 0"; in other operations wrong numbers or a
crash.

Why: untyped_storage().resize_(0) gives the bytes back at once, under every tensor and view that uses them.

Wrong:

    import torch

    weight = torch.ones(4, 4)
    weight.untyped_storage().resize_(0)
    print(weight.t()[1:].sum())

Right:

    import torch
    import tenure

    weight = torch.ones(4, 4)
    total = weight.t()[1:].sum()
    tenure.dispose(weight)
    print(total)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN210", "emptied-storage", __doc__)

_SAYS = (
    r"setStorage: .* (?:are|is) out of bounds for storage of size (?P<size>\d+)"
    r"|out of bounds for storage of size 0|invalid python storage|storage .*(?:has been freed|was (?:resized|freed|released))"
    r"|[Tt]ensor .*(?:no|empty|without) storage|storage has wrong (?:byte )?size|Cannot access data pointer of Storage"
    r"|The tensor has a non-zero number of elements, but its data is not allocated yet"
)


def in_exception(raised: Raised) -> Finding | None:
    """A storage that was emptied (resize_(0), set_(), a sharded or offloaded parameter) while tensors still use it."""
    if not raised.says(_SAYS, "RuntimeError", "ValueError"):
        return None
    emptied = raised.calls("end", "resize_", "untyped_storage.resize_", "set_", "_free_storage", "free_storage")
    shrinking = [place for place in emptied if "(0)" in place.text or "set_(" in place.text or "free" in place.text]
    return FAULT.finding(
        "the storage of this tensor was emptied; the tensor still has its shape, but no bytes behind it",
        [*(shrinking or emptied)[:2], *raised.use],
        reason="resize_(0) on a storage gives its bytes back at once, for every tensor and view on it. torch notices it only in "
        "some operations; in others the program may crash.",
        fix=Fix(
            "fill the storage again before each use (resize_ to its old size and copy_), or let go of the tensor itself; "
            "tenure.dispose(x) ends a tensor safely"
        ),
        certain=bool(shrinking),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor is used after its storage was resized to nothing."""
    for seen in found.of("used after end"):
        if seen.data["cause"] == "emptied":
            yield FAULT.finding(
                f"this tensor's storage was emptied in line {seen.line('end')}",
                seen.places(),
                reason="resize_(0) frees the bytes under the tensor. Reading it reads memory that is not its own.",
                fix=Fix("resize the storage back and fill it before the tensor is used"),
            )
