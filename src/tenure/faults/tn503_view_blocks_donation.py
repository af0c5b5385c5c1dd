"""A view on the host keeps a donated buffer from being reused.

donate_argnums lets a compiled function put its result into the memory of an argument. While something else reads that
memory, JAX takes new memory instead, and says nothing: the argument stays alive beside the result, and the peak is higher
by as much. On the CPU numpy.asarray(x), jax.device_get(x), memoryview(x) and DLPack read it without a copy.

Wrong:

    before = np.asarray(state)         # reads the memory of state
    state = step(state)                # is not reused

Right:

    before = np.array(state)           # a copy
    state = step(state)

or let the view go before the call. What is told was seen: the call had a result of the same shape and dtype, left the
argument as it was, and something was found on its memory. It is seen where the recorder is native.
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
_LEAST = 1 << 16  # bytes in one call, below which it is not worth a word


def in_trace(refused: Refused) -> Finding | None:
    """The finding for a call that could not reuse what it was offered; None if it is little, or nobody knows where."""
    called = sites.read(refused.stack)[:1]
    if not called or refused.bytes < _LEAST:
        return None
    reader = next((one for one in refused.readers if one.site is not None), refused.readers[0])
    places = [Place.at("birth", site) for site in sites.read(refused.born)[:1]]
    places += [] if reader.site is None else [Place.at("holder", reader.site)]
    use = Place.at("use", called[0])
    calls = "once" if refused.calls == 1 else f"in {refused.calls:,} calls"
    what = "an argument" if refused.count == 1 else f"{refused.count} arguments"
    function = f"`{refused.function}`" if refused.function.isidentifier() else "a compiled function"
    return FAULT.finding(
        f"{function} could not reuse {what} of {size(refused.bytes)} that it was given to reuse, {calls}",
        [*places, use],
        reason=f"{reader} reads that memory, so the result went into new memory, and the argument stayed",
        fix=Fix("keep a copy, as numpy.array(x) makes, instead of a view; or let the view go before the call"),
        evidence={
            "function": refused.function,
            "calls": refused.calls,
            "arrays": refused.count,
            "bytes": refused.bytes,
            "readers": [str(one) for one in refused.readers],
        },
        at=use,
    )
