"""A function is traced and compiled again in each turn, and every trace is kept.

jax.jit and tf.function make one trace for each combination of shapes, dtypes, static arguments and Python values, and
keep them all. A number that counts up, a new length each time or a lambda made in the loop makes a new one in each turn;
and what the traced function took from outside is kept with it as a constant.

Wrong:

    @functools.partial(jax.jit, static_argnames="step")
    def update(params, step): ...
    for step in range(1000):
        params = update(params, step=step)

Right:

    @jax.jit
    def update(params, step): ...          # an array of no dimensions: traced once
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

FAULT = Fault("TN311", "retracing", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """A function is traced again and again; or what its traces closed over piles up in the compiler's cache."""
    if leak.what == "traces":
        return growth.told(
            FAULT,
            leak,
            f"{leak.name or 'a function'}() was traced {leak.count:,} times, and every trace is kept",
            _FIX,
            "Each new shape, dtype, Python number or function that is passed makes a new trace, which stays in a cache.",
        )
    root = next(iter(leak.links), None)
    if leak.what == "buffers" and root is not None and root.text.startswith(("jax.", "jaxlib.", "tensorflow.")):
        return growth.told(
            FAULT,
            leak,
            f"traces that are kept keep the arrays they closed over: {growth.rate(leak)}",
            _FIX,
            "An array that a traced function takes from outside its arguments is a constant of that trace.",
        )
    return None


_FIX = Fix(
    "pass what changes as an array argument, pad to few shapes, and make functions and lambdas once, outside the loop"
)


def in_source(found: Found) -> Iterator[Finding]:
    """A traced function is traced in every turn."""
    for seen in found.of("retraced"):
        yield FAULT.finding(
            f"this call traces anew in every turn: it gets {seen.data['why']} each time",
            seen.places(),
            reason="Every trace is compiled and kept in the function's cache.",
            fix=Fix("pass it as an array, or define the function once, outside the loop"),
            evidence={"traced by": seen.data["how"]},
        )
    for seen in found.of("function made in loop"):
        yield FAULT.finding(
            "every turn of the loop makes a compiled function of its own",
            seen.places(),
            reason="Each is traced and compiled again, and what was compiled before is not used.",
            fix=Fix("make it once, before the loop"),
            evidence={"traced by": seen.data["how"]},
        )
