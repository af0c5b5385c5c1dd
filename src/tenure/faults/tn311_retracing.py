"""A function is traced and compiled again in each iteration, and every trace is kept.

## What it means

jax.jit and tf.function create one trace for each combination of shapes, dtypes, static arguments and Python
values, and keep them all. A counter, a new length each time, or a lambda that is created in the loop causes a
new trace in each iteration.

## Why it hurts

Compilation takes most of the time. Memory grows, because each trace keeps its compiled program and the arrays
that it closed over.

## Example

    @functools.partial(jax.jit, static_argnames="step")
    def update(params, step): ...
    for step in range(1000):
        params = update(params, step=step)

## Use instead

    @jax.jit
    def update(params, step): ...          # step is now an array argument: traced once

## How to be sure

In JAX, set `jax.config.update("jax_log_compiles", True)`: each compilation is logged. In TensorFlow, print
`f.experimental_get_tracing_count()`: it grows with each call.
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

FAULT = Fault("TN311", "retracing", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """A function is traced repeatedly, or arrays that its traces closed over accumulate in the compiler's cache."""
    if leak.what == "traces":
        if leak.framework == "jax" and leak.name.rpartition(".")[2] in _CONTROL:
            return growth.told(
                FAULT,
                leak,
                f"this {leak.name}() was compiled {leak.count:,} times, for a body that is jitted again each time",
                Fix(
                    "jit the body, or better the whole function, once, before the loop; what changes is an argument or part of "
                    "the carry"
                ),
                "Outside of jit, JAX compiles a loop or branch when it is called, and finds it again only by the same function "
                "object and the same shapes.",
            )
        return growth.told(
            FAULT,
            leak,
            f"{leak.name or 'a function'}() was traced {leak.count:,} times, and every trace is kept",
            _FIX,
            "Each new shape, dtype, Python number or function argument causes a new trace, which stays in a cache.",
        )
    root = next(iter(leak.links), None)
    if leak.what == "buffers" and root is not None and root.text.startswith(("jax.", "jaxlib.", "tensorflow.")):
        return growth.told(
            FAULT,
            leak,
            f"cached traces keep the arrays that they closed over ({growth.rate(leak)})",
            _FIX,
            "An array that a traced function uses without taking it as an argument becomes a constant of the trace.",
        )
    return None


_CONTROL = ("scan", "fori_loop", "while_loop", "cond", "switch")
_FIX = Fix(
    "pass what changes as an array argument, pad to a few shapes, and create functions and lambdas once, before the loop"
)


def _fix_for(why: str, how: str) -> Fix:
    if "function" in why:
        return Fix("define the function once, before the loop")
    if "object" in why:
        return Fix("make a function of the arrays and numbers that it needs, and pass those that change as arguments")
    if "shape" in why:
        return Fix("pad the array to one of a few shapes, or write into an array of fixed size")
    if "tf" in how or "function" in how:
        return Fix("pass it as a tensor: `tf.constant(x)`")
    return Fix("take it out of static_argnums or static_argnames, and pass it as an array")


def in_source(found: Found) -> Iterator[Finding]:
    """A traced function is traced again in every iteration."""
    for retraced in found.of(facts.Retraced):
        yield FAULT.finding(
            f"this call is traced again in every iteration: it gets {retraced.why} each time",
            retraced.places(),
            reason="Every trace is compiled and stays in the function's cache.",
            fix=_fix_for(retraced.why, retraced.how),
            evidence={"traced by": retraced.how},
            labels={"birth": "changes here"} if "number" in retraced.why else None,
        )
    for function_made_in_loop in found.of(facts.FunctionMadeInLoop):
        yield FAULT.finding(
            "every iteration creates a new compiled function",
            function_made_in_loop.places(),
            reason="Each one is traced and compiled again, and the earlier compiled code is never used again.",
            fix=Fix("create it once, before the loop"),
            evidence={"traced by": function_made_in_loop.how},
            labels={"use": "created here", "holder": "called here"},
        )
