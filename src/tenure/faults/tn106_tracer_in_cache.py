"""A tracer is kept by a cache, a default or a generator, and given out in a later trace.

What happens: The errors of TN101, often in a second call or a second function, far from the first.

Why: A cache, a default argument or a generator keeps what the first call made. If that call was traced, it keeps a
tracer, and gives it to calls that are not, or to another trace.

Wrong:

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

Right:

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
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN106", "tracer-in-cache", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value that was kept for the next call: by a cache, a default argument or a generator."""
    leak = raised.leak
    if leak is None or leak.escape is None or not leak.escape.is_cache:
        return None
    return leak.finding(FAULT)


def in_source(found: Found) -> Iterator[Finding]:
    """A cached function is called in a trace and gives symbols."""
    for seen in found.of("cached tracer"):
        yield FAULT.finding(
            f"a function with a cache is called while {seen.data['how']} is tracing, and its cache keeps the symbol",
            seen.places(),
            reason="The next caller gets a value from the cache that belongs to a trace which is over.",
            fix=Fix("build what is cached with NumPy, or take the cache off"),
            evidence={"traced by": seen.data["how"]},
        )
