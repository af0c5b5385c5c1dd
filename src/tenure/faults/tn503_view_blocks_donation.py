"""A view on the host prevents JAX from reusing a donated buffer.

## What it means

donate_argnums lets a compiled function write its result into the memory of an argument. While something else
reads that memory, JAX allocates new memory instead. On the CPU, numpy.asarray(x), jax.device_get(x),
memoryview(x) and DLPack read it without a copy.

tenure reports only calls that it observed: the call had a result of the same shape and dtype, left the
argument as it was, and an object was found that reads its memory. Only the native extension observes this.

## Why it hurts

The argument stays allocated next to the result, so the peak is higher by its size. JAX prints no warning.

## Example

    before = np.asarray(state)         # reads the memory of state
    state = step(state)                # cannot reuse it

## Use instead

    before = np.array(state)           # a copy; or delete the view before the call
    state = step(state)

## How to be sure

Keep a second name for the argument and call `is_deleted()` on it after the call: False means that JAX did not
reuse its buffer. Replace the view with a copy: it becomes True.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure import sites
from tenure.faults.base import Fault
from tenure.findings import Finding, Fix, Place
from tenure.model import size

if TYPE_CHECKING:
    from tenure.trace.donations import Refused

FAULT = Fault("TN503", "view-blocks-donation", __doc__, severity="advice")
_LEAST = 1 << 16  # bytes in one call, below which it is not reported


def in_trace(refused: Refused) -> Finding | None:
    """Return the finding for a call that could not reuse a donated argument; None if it is small or its line is unknown."""
    called = sites.read(refused.stack)[:1]
    if not called or refused.bytes < _LEAST:
        return None
    reader = next((one for one in refused.readers if one.site is not None), refused.readers[0])
    places = [Place.at("birth", site) for site in sites.shown(sites.read(refused.born))]
    places += [] if reader.site is None else [Place.at("holder", reader.site)]
    use = Place.at("use", called[0])
    calls = "once" if refused.calls == 1 else f"in {refused.calls:,} calls"
    what = "its donated argument" if refused.count == 1 else f"{refused.count} donated arguments"
    function = f"`{refused.function}`" if refused.function.isidentifier() else "a compiled function"
    return FAULT.finding(
        f"{function} could not reuse {what} ({size(refused.bytes)}) {calls}",
        [*places, use],
        reason=f"{reader} still reads that memory, so the result needed new memory, and the argument stayed allocated.",
        fix=Fix("make a copy, `numpy.array(x)`, instead of a view; or delete the view before the call"),
        evidence={
            "function": refused.function,
            "calls": refused.calls,
            "arrays": refused.count,
            "bytes": refused.bytes,
            "readers": [str(one) for one in refused.readers],
        },
        at=use,
        labels={"holder": "view created here", "use": "donated here"},
    )
