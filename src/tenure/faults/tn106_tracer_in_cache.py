"""A cache, a default argument or a generator keeps a tracer and returns it in a later trace.

## What it means

The errors are those of TN101, often in a second call or a second function, far from the first one.

A cache, a default argument or a generator keeps the value that the first call created. If that call was
traced, the value is a tracer. Later calls get it outside that trace, or in another one.

## Why it hurts

Whether the program fails depends on which call came first, so a correct function fails after an unrelated
change.

## Example

    import functools
    import jax
    import jax.numpy as jnp

    @functools.cache
    def mask(n):
        return jnp.tril(jnp.ones((n, n)))

    @jax.jit
    def f(x):
        return mask(3) @ x

    f(jnp.ones(3))
    print(mask(3) + jnp.ones(3))

## Use instead

    import functools
    import jax
    import jax.numpy as jnp
    import numpy as np

    @functools.cache
    def mask(n):
        return np.tril(np.ones((n, n), "float32"))

    @jax.jit
    def f(x):
        return mask(3) @ x

    f(jnp.ones(3))
    print(mask(3) + jnp.ones(3))

## How to be sure

Empty the cache before the failing call, for example with `mask.cache_clear()`. If the error disappears, the
cache contained a tracer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN106", "tracer-in-cache", __doc__, labels={"escape": "cached here"})


def in_exception(raised: Raised) -> Finding | None:
    """A cache, a default argument or a generator kept a symbolic value for the next call."""
    leak = raised.leak
    if leak is None or leak.escape is None or not leak.escape.is_cache:
        return None
    return leak.finding(FAULT)


def in_source(found: Found) -> Iterator[Finding]:
    """A cached function is called in a trace and returns symbolic values."""
    for fact in found.of(facts.CachedTracer):
        yield FAULT.finding(
            f"a cached function is called during tracing by {fact.how}: its cache keeps a traced value",
            fact.places(),
            reason="The next call gets this value from the cache, although its trace is over.",
            fix=Fix("create the cached value with NumPy, or remove the cache"),
            evidence={"traced by": fact.how},
        )
