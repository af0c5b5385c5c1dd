"""An id, an address or a weak reference is used after its tensor may have been freed.

## What it means

A weak reference raises ReferenceError, "weakly-referenced object no longer exists", or returns None, which
then fails with AttributeError. A WeakKeyDictionary or WeakValueDictionary raises KeyError. With id() or data_ptr() as a key, nothing fails, but the program finds another
tensor's entry.

A weak reference, an id() or an address does not keep a tensor alive, and Python uses the same id and address
again.

## Why it hurts

The program stops, or it silently uses the data of another tensor.

## Example

    import torch
    import weakref

    table = torch.ones(3)
    view = weakref.proxy(table)
    del table
    print(view + 1)

## Use instead

    import torch

    table = torch.ones(3)
    view = table
    del table
    print(view + 1)

## How to be sure

Keep a second, normal reference to the tensor, for example in a list. If the error or the wrong entry
disappears, the tensor had been freed.
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
    from tenure.findings import Finding, Place

FAULT = Fault("TN217", "address-outlives-tensor", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A weak reference is used after its tensor was freed."""
    if raised.says(r"weakly-referenced object no longer exists", "ReferenceError"):
        made = raised.calls("birth", "weakref.proxy", "proxy")
        is_tensor = raised.mentions("torch", "tensorflow", "jax", "tf", "jnp")
        return _gone(raised, made) if is_tensor else None
    entry = _entry(raised)
    if entry is not None:
        return entry
    if raised.says(r"'NoneType'", "AttributeError", "TypeError"):
        made = raised.endings.dead_references()
        return _gone(raised, made) if made else None
    return None


def _entry(raised: Raised) -> Finding | None:
    """An entry of a weak map is gone, or its key is: a weak reference to it gives None."""
    in_map = raised.kind == "KeyError" and any(
        frame.file.replace("\\", "/").endswith(("/weakref.py", "/utils/weak.py")) for frame in raised.frames[-2:]
    )
    if not in_map and not raised.says(r"cannot create weak reference to 'NoneType' object", "TypeError"):
        return None
    made, put = raised.weak_maps
    if not made or (in_map and not put):
        return None
    return FAULT.finding(
        "this weak map no longer has this entry: its key or value was already freed",
        [*made[:1], *put[:1], *raised.use],
        reason="A weak map does not keep its weak keys or values alive. An entry is removed when the last normal reference "
        "to its key or value is gone.",
        fix=Fix("keep a normal reference to the key or value as long as the entry is needed, or use an ordinary dict"),
        certain=False,
    )


def _gone(raised: Raised, made: list[Place]) -> Finding:
    return FAULT.finding(
        "the tensor of this weak reference was already freed",
        [*made[:1], *raised.use],
        reason="A weak reference, an id() or a data_ptr() does not keep a tensor alive. It was freed with its last normal reference.",
        fix=Fix(
            "keep a normal reference as long as the tensor is needed, or check the weak reference and create the tensor again"
        ),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A dict is keyed by the id or address of a temporary tensor."""
    for fact in found.of(facts.AddressAsKey):
        yield FAULT.finding(
            "the key of this cache is the id of a tensor that it does not keep alive",
            fact.places(),
            reason="When the tensor is freed, a new tensor can get the same id, and then finds the wrong entry.",
            fix=Fix("store the tensor in the entry, or use a key that lives as long as the cache"),
        )
    for weak in found.of(facts.WeaklyHeld):
        yield FAULT.finding(
            "only a weak reference refers to this tensor, so it is freed at once",
            weak.places(),
            fix=Fix("keep the tensor in an ordinary dict, list or attribute as well"),
            labels={"holder": "weak reference made here"},
        )
