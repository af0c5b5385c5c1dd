"""A closure, a generator or a waiting thread keeps tensors alive.

## What it means

A function references the variables that it closes over, and functools.partial its arguments. A suspended
generator or a blocked thread references the local variables of its frames.

## Why it hurts

A list of callbacks keeps the tensors of every iteration. A generator or thread that is never closed keeps its
tensors until the process exits.

## Example

    callbacks.append(lambda: plot(image))          # each keeps its image, and its graph
    for i, batch in enumerate(Prefetch(loader)):   # afterwards the thread waits forever in put()
        if i == 2:
            break

## Use instead

    peak = float(image.max())
    callbacks.append(lambda: plot_number(peak))
    with contextlib.closing(Prefetch(loader)) as batches:
        ...

## How to be sure

Call `inspect.getclosurevars(callbacks[-1]).nonlocals`: it contains the tensors that the function keeps.
`tenure.holders(x)` shows the reference path of one tensor.
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

FAULT = Fault("TN309", "closure-keeps-tensors", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """The tensors are retained by functions, suspended generators or blocked threads."""
    first = next(iter(leak.links), None)
    waiting = first is not None and first.kind in ("thread", "generator", "coroutine")
    if (
        leak.what != "buffers"
        or leak.has("cache", "hook")
        or not (waiting or leak.has("closure", "generator", "default", "partial"))
    ):
        return None
    if leak.holder is not None and leak.holder.kind == "cycle":
        return None
    who = "blocked threads or suspended generators" if waiting else f"functions stored in {growth.name(leak)}"
    return growth.told(
        FAULT,
        leak,
        f"{who} keep tensors alive ({growth.rate(leak)})",
        Fix(
            "close the generator, or stop the thread, when it is no longer needed: `close()`, `join()`"
            if waiting
            else "let the function close over the number that it needs (`float(x)`), not over the tensor; drop it after use"
        ),
        "A function references the variables that it closes over. A suspended generator or blocked thread references the "
        "local variables of its frames.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Functions that close over tensors are collected."""
    for fact in found.of(facts.ClosureKeeps):
        yield FAULT.finding(
            "every iteration stores a function that closes over a tensor",
            fact.places(),
            reason="Each function keeps the variables that it closes over alive.",
            fix=Fix("let it close over a number: call `.item()` outside the function"),
        )
