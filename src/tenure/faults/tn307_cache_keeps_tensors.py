"""A cache keeps tensors and never lets go of any.

A cache pays if its keys come again. Keyed by the step, by a shape that always differs, or by an object such as a model,
it gets a new entry each time and never lets one go: functools.cache has no bound, and lru_cache keeps its arguments too.

Wrong:

    @functools.lru_cache
    def adapters(model):                   # keeps each model that was ever passed
        return {n: p for n, p in model.named_parameters() if "lora" in n}

Right:

    mask = torch.full((longest, longest), -torch.inf).triu(1)
    return mask[:n, :n]                    # one table for all lengths
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

FAULT = Fault("TN307", "cache-keeps-tensors", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """What grew lies in a cache: functools.cache, or a dict whose keys never come again."""
    if leak.what != "buffers" or leak.holder is None or leak.holder.kind == "cycle":
        return None
    at = leak.grows_at
    if at is None or not (at.kind == "cache" or (at.kind == "entry" and not leak.carries_graph)):
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} gets a new entry each time and never lets one go: {growth.rate(leak)}",
        Fix(
            "give the cache a bound (lru_cache(maxsize=…), an entry replaced per key), or key it by what really recurs; "
            "never by an object such as a model"
        ),
        "A cache helps if keys come again. With a new key each time it only collects.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A cache holds tensors and has no end."""
    for seen in found.of("cache keeps"):
        cached = seen.data["how"] == "lru_cache"
        yield FAULT.finding(
            "this cache keeps every model or tensor it was called with"
            if cached
            else "this cache gets a tensor for every new key, and none is ever taken out",
            seen.places(),
            fix=Fix(
                "take the cache off, or cache by something small, with a limit"
                if cached
                else "limit the cache, or keep one entry"
            ),
        )
