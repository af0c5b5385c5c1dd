"""After `del`, another name still keeps the tensor alive.

## What it means

`del x` removes one name. The bytes are freed with the last reference, which can be another name, a list, an
attribute, a view, a loop variable, or the graph of another tensor.

## Why it hurts

The memory that `del` should free stays allocated, and gc.collect() or empty_cache() does not change that.

## Example

    for batch in batches:
        out = model(batch)
    del out                                # but the loop variable `batch` still exists

## Use instead

    del out, batch

## How to be sure

Call `tenure.holders(x)` just before `del x`: it shows every reference path to the tensor. `tenure.dispose(x)`
releases it in spite of other references.
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

FAULT = Fault("TN315", "other-name-holds", __doc__)


def in_source(found: Found) -> Iterator[Finding]:
    """A name is deleted and memory collected, while another name, never used again, keeps the same bytes."""
    for fact in found.of(facts.StillHeld):
        name, other = fact.name, fact.other
        yield FAULT.finding(
            f"this frees nothing: `{other}` still keeps the tensor of `{name}` alive",
            fact.places(),
            fix=Fix(f"delete both: `del {name}, {other}`"),
            labels={"end": "deleted here", "holder": "created here"},
        )
