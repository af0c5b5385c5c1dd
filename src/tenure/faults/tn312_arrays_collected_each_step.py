"""Every step adds device arrays to a container, and none is ever removed.

## What it means

Each array in the container stays allocated on its device. Without a graph nothing else is kept with it.

## Why it hurts

Memory grows by one array per step, until the device has no memory left.

## Example

    history.append(params)

## Use instead

    history.append(float(loss))                          # only the number that you need
    history.append(jax.device_get(params))               # on the host
    recent = collections.deque(maxlen=10)                # or only the last few

## How to be sure

Print the length of the container in the loop. In JAX, `len(jax.live_arrays())` grows by the same number.
`tenure run train.py` reports the growth per step.
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

FAULT = Fault("TN312", "arrays-collected-each-step", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Arrays without a graph accumulate in a container."""
    if leak.what != "buffers" or leak.holder is None or leak.suspect is None or leak.holder.kind == "cycle":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} keeps every array that is added to it ({growth.rate(leak)})",
        Fix(
            "store only what you need: a number (`float(x)`), a summary, or a copy on the host; or use a bounded queue: "
            "`collections.deque(maxlen=…)`"
        ),
        "Each array stays allocated on its device until no reference to it is left.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Arrays are collected and never read."""
    for fact in found.of(facts.ArraysCollected):
        yield FAULT.finding(
            "every iteration stores an array, and none is used again",
            fact.places(),
            fix=Fix("store numbers (`float(x)`) or a copy on the host, or use a bounded `collections.deque`"),
        )
