"""Two names share one buffer: a change through one changes the other.

## What it means

Nothing fails: a value changes although no code writes to it.

from_numpy, numpy(), frombuffer, views, detach() and state_dict() share memory with the object that they were
called on.

## Why it hurts

A stored "best" model is the last one, and saved data changes later, without an error.

## Example

    import torch

    layer = torch.nn.Linear(2, 1)
    best = layer.state_dict()
    with torch.no_grad():
        layer.weight.fill_(7.0)
    assert best["weight"].eq(7.0).all()

## Use instead

    import copy
    import torch

    layer = torch.nn.Linear(2, 1)
    best = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        layer.weight.fill_(7.0)
    assert not best["weight"].eq(7.0).any()

## How to be sure

Compare the addresses: `best["weight"].data_ptr() == layer.weight.data_ptr()` is True if both share a buffer.
For arrays, use `np.shares_memory(a, b)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.findings import Finding

FAULT = Fault("TN404", "alias-changes", __doc__)


def in_source(found: Found) -> Iterator[Finding]:
    """A stored value changes together with its source."""
    for fact in found.of(facts.AliasChanges):
        if fact.how == "state_dict" and fact.call is not None:
            text = f"{{k: v.detach().clone() for k, v in {fact.text('birth', fact.call)}.items()}}"
            yield FAULT.finding(
                "state_dict() references the live weights: further training changes this copy too",
                fact.places(),
                fix=Fix(
                    "store a copy: `copy.deepcopy(model.state_dict())`",
                    safe=True,
                    edits=fact.replace("birth", fact.call, text),
                ),
            )
        elif fact.how == "model":
            yield FAULT.finding(
                "this is a second name for the model that is being trained, not a copy",
                fact.places(),
                fix=Fix("store a copy: `copy.deepcopy(model)`"),
            )
        elif fact.how == "buffer":
            yield FAULT.finding(
                "every iteration stores the same buffer, and the next iteration overwrites it",
                fact.places(),
                fix=Fix("store a copy: `.clone()` of a tensor, `.copy()` of an array"),
            )
        else:
            node = fact.node("birth")
            yield FAULT.finding(
                "all tensors stored here share one buffer, which every iteration overwrites",
                fact.places(),
                fix=Fix("store a copy: add `.clone()`", safe=True, edits=fact.after("birth", node, ".clone()")),
            )
