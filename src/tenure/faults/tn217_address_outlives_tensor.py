"""An id, an address or a weak reference is taken for a tensor that may be gone.

What happens: ReferenceError "weakly-referenced object no longer exists", AttributeError on None; with id() or
data_ptr() as a key, another tensor's entry.

Why: A weak reference, an id() or an address does not keep a tensor alive, and an address is used again.

Wrong:

    import torch
    import weakref

    table = torch.ones(3)
    view = weakref.proxy(table)
    del table
    print(view + 1)

Right:

    import torch

    table = torch.ones(3)
    view = table
    del table
    print(view + 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding, Place

FAULT = Fault("TN217", "address-outlives-tensor", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A weak reference whose tensor is gone."""
    if raised.says(r"weakly-referenced object no longer exists", "ReferenceError"):
        made = raised.calls("birth", "weakref.proxy", "proxy")
        is_tensor = raised.mentions("torch", "tensorflow", "jax", "tf", "jnp")
        return _gone(raised, made) if is_tensor else None
    if raised.says(r"'NoneType'", "AttributeError", "TypeError"):
        made = raised.endings.dead_references()
        return _gone(raised, made) if made else None
    return None


def _gone(raised: Raised, made: list[Place]) -> Finding:
    return FAULT.finding(
        "the tensor behind this weak reference is gone",
        [*made[:1], *raised.use],
        reason="A weak reference, an id() or a data_ptr() does not keep a tensor alive: it ended with the last ordinary reference.",
        fix=Fix(
            "keep an ordinary reference as long as the tensor is needed, or ask the weak reference and make the tensor anew"
        ),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A dict is keyed by the id or address of a temporary tensor."""
    for seen in found.of("address as key"):
        yield FAULT.finding(
            "a cache is keyed by the id of a tensor that it does not keep",
            seen.places(),
            reason="When the tensor is gone its id is given to the next one, which then finds the wrong entry.",
            fix=Fix("keep the tensor in the entry, or key by what lives as long as the cache"),
        )
