"""A closure, a generator or a waiting thread keeps tensors.

A function keeps the variables that it closes over, functools.partial its arguments, a suspended generator or a blocked
thread the variables of its frames. In a list of callbacks, or with nobody to end them, they keep their tensors.

Wrong:

    callbacks.append(lambda: plot(image))          # each keeps its image, and its graph
    for i, batch in enumerate(Prefetch(loader)):   # the thread waits for ever in put()
        if i == 2:
            break

Right:

    peak = float(image.max())
    callbacks.append(lambda: plot_number(peak))
    with contextlib.closing(Prefetch(loader)) as batches:
        ...
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

FAULT = Fault("TN309", "closure-keeps-tensors", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """What grew is held by functions, generators or threads that wait."""
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
    who = "threads or generators that wait" if waiting else f"functions kept in {growth.name(leak)}"
    return growth.told(
        FAULT,
        leak,
        f"{who} keep tensors: {growth.rate(leak)}",
        Fix(
            "let the thread or generator end (close(), join()) when its work is no longer wanted"
            if waiting
            else "let the function close over the number it needs (float(x)), not over the tensor; drop it when it is done"
        ),
        "A function keeps the variables that it closes over, a suspended generator or thread those of its frames.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Functions that close over tensors are collected."""
    for seen in found.of("closure keeps"):
        yield FAULT.finding(
            "this keeps a function from every turn, and each holds a tensor of its turn",
            seen.places(),
            fix=Fix("let it hold a number instead: take .item() outside the function"),
        )
