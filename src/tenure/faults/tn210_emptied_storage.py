"""A tensor is used after its storage was emptied.

## What it means

PyTorch raises RuntimeError, "setStorage: ... out of bounds for storage of size 0". Other operations return
wrong numbers or crash the process.

untyped_storage().resize_(0) frees the bytes immediately, for every tensor and view that uses them.

## Why it hurts

Only some operations check for this. The others read memory that does not belong to the tensor.

## Example

    import torch

    weight = torch.ones(4, 4)
    weight.untyped_storage().resize_(0)
    print(weight.t()[1:].sum())

## Use instead

    import torch
    import tenure

    weight = torch.ones(4, 4)
    total = weight.t()[1:].sum()
    tenure.dispose(weight)
    print(total)

## How to be sure

Call `weight.untyped_storage().nbytes()` before the failing line: it returns 0, while `weight.numel()` does
not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN210", "emptied-storage", __doc__, labels={"end": "emptied here"})

_SAYS = (
    r"setStorage: .* (?:are|is) out of bounds for storage of size (?P<size>\d+)"
    r"|out of bounds for storage of size 0|invalid python storage|storage .*(?:has been freed|was (?:resized|freed|released))"
    r"|[Tt]ensor .*(?:no|empty|without) storage|storage has wrong (?:byte )?size|Cannot access data pointer of Storage"
    r"|The tensor has a non-zero number of elements, but its data is not allocated yet"
)


def in_exception(raised: Raised) -> Finding | None:
    """A storage was emptied (resize_(0), set_(), a sharded or offloaded parameter) while tensors still use it."""
    if not raised.says(_SAYS, "RuntimeError", "ValueError"):
        return None
    emptied = raised.calls("end", "resize_", "untyped_storage.resize_", "set_", "_free_storage", "free_storage")
    shrinking = [place for place in emptied if "(0)" in place.text or "set_(" in place.text or "free" in place.text]
    return FAULT.finding(
        "the storage of this tensor was emptied: the tensor has a shape, but no bytes",
        [*(shrinking or emptied)[:2], *raised.use],
        reason="resize_(0) on a storage frees its bytes immediately, for every tensor and view on it. Only some operations of torch "
        "check for this; with others the program may crash.",
        fix=Fix(
            "fill the storage again before each use (`resize_` to its old size, then `copy_`), or delete the tensor itself; "
            "`tenure.dispose(x)` releases a tensor safely"
        ),
        certain=bool(shrinking),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor is used after its storage was resized to 0 bytes."""
    for fact in found.of(facts.UsedAfterEnd):
        if fact.cause == "emptied":
            yield FAULT.finding(
                f"this tensor's storage was already emptied in line {fact.line('end')}",
                fact.places(),
                reason="resize_(0) frees the tensor's bytes. A later read accesses memory that does not belong to it.",
                fix=Fix("resize the storage back and fill it before the tensor is used again"),
            )
