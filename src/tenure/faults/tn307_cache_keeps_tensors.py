"""A cache keeps tensors and never removes any.

## What it means

A cache helps only if the same keys occur again. With the step, a shape that always differs, or an object such
as a model as the key, it gets a new entry each time. functools.cache has no limit, and lru_cache also keeps
its arguments alive.

## Why it hurts

Memory grows with each call. A cache on a method keeps every model that was ever used.

## Example

    @functools.lru_cache
    def adapters(model):                   # keeps each model that was ever passed
        return {n: p for n, p in model.named_parameters() if "lora" in n}

    @functools.cache
    def causal_mask(n):                    # keeps one mask per length
        return torch.full((n, n), -torch.inf).triu(1)

## Use instead

    def adapters(model):                   # without a cache: this is cheap to compute
        return {n: p for n, p in model.named_parameters() if "lora" in n}

    MASK = torch.full((LONGEST, LONGEST), -torch.inf).triu(1)

    def causal_mask(n):                    # one mask for all lengths
        return MASK[:n, :n]

## How to be sure

Print `adapters.cache_info()` in the loop: `currsize` grows and `hits` does not. For a dict, print its length.
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

FAULT = Fault("TN307", "cache-keeps-tensors", __doc__)

_FIX_CACHE = (
    "limit the cache (`lru_cache(maxsize=…)`), or use keys that occur again; "
    "do not use an object such as a model as the key"
)
_WHY_CACHE = "A cache helps only if the same key occurs again. With a new key each time, it only grows."
_FIX_DICT = (
    "remove entries that are no longer needed (`del`, `pop`), or use keys that occur again, so that they are replaced"
)
_WHY_DICT = "A dict keeps a value until its key is removed or set again. With a new key each time, it only grows."


def in_run(leak: Leak) -> Finding | None:
    """The tensors are in a cache: functools.cache, or a dict whose keys are never used again."""
    if leak.what != "buffers" or leak.holder is None or leak.holder.kind == "cycle":
        return None
    at = leak.grows_at
    if at is None or not (at.kind == "cache" or (at.kind == "entry" and not leak.carries_graph)):
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} gets a new entry each time and never drops one ({growth.rate(leak)})",
        Fix(_FIX_CACHE if at.kind == "cache" else _FIX_DICT),
        _WHY_CACHE if at.kind == "cache" else _WHY_DICT,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A cache keeps tensors and has no limit."""
    for fact in found.of(facts.CacheKeeps):
        cached = fact.how == "lru_cache"
        yield FAULT.finding(
            "this cache keeps every model or tensor that its function was called with"
            if cached
            else "this cache stores a tensor for every new key and never removes one",
            fact.places(),
            fix=Fix(
                "remove the cache, or use small keys and a limit"
                if cached
                else "limit the cache, or keep only one entry"
            ),
            labels={"holder": "cached here"} if cached else None,
        )
