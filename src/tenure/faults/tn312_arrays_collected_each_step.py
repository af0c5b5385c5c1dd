"""Device arrays are collected in each step and never let go.

Each array in the list stays on its device. Without a graph nothing else is kept with it, but with one more in each step
the memory ends all the same.

Wrong:

    history.append(params)

Right:

    history.append(float(loss))                          # what is needed of it
    history.append(jax.device_get(params))               # on the host
    recent = collections.deque(maxlen=10)                # or only the last few
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

FAULT = Fault("TN312", "arrays-collected-each-step", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Arrays without a graph pile up in a container."""
    if leak.what != "buffers" or leak.holder is None or leak.suspect is None or leak.holder.kind == "cycle":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} collects arrays and never lets one go: {growth.rate(leak)}",
        Fix(
            "keep what is needed of them: a number (float(x)), a summary, a copy on the host; or a bounded queue "
            "(collections.deque(maxlen=…))"
        ),
        "Each stays on its device until nobody refers to it.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Arrays are collected and never read."""
    for seen in found.of("arrays collected"):
        yield FAULT.finding(
            "this keeps an array of every turn, and none is used again",
            seen.places(),
            fix=Fix("keep numbers (float(x)), or a copy on the host, or a bounded deque"),
        )
