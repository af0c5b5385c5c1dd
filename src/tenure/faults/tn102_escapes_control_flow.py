"""A value that was created inside a control-flow body (cond, while_loop, scan, map_fn, Dataset.map) is used outside it.

## What it means

The errors are those of TN101, or AutoGraph's "must also be initialized in the else branch".

Branches and loop bodies are traced as functions of their own: tf.cond, tf.while_loop, map_fn, Dataset.map,
lax.cond, lax.scan, and `if` or `for` under AutoGraph. Only the values that they return are available outside.

## Why it hurts

A value that a body stores elsewhere is symbolic and never gets a number. Every later use fails.

## Example

    import jax
    import jax.numpy as jnp

    seen = []

    def body(carry, x):
        carry = carry * 0.9 + x
        seen.append(carry)
        return carry, None

    jax.lax.scan(body, 0.0, jnp.arange(3.0))
    print(seen[-1] + 1.0)

## Use instead

    import jax
    import jax.numpy as jnp

    def body(carry, x):
        carry = carry * 0.9 + x
        return carry, carry

    last, seen = jax.lax.scan(body, 0.0, jnp.arange(3.0))
    print(seen[-1] + 1.0)

## How to be sure

Examine the stored value. In JAX, `isinstance(value, jax.core.Tracer)` returns True; for TensorFlow,
`tf.is_symbolic_tensor(value)` returns True. Or, in JAX, wrap the call in `with jax.checking_leaks():`; the
call itself then fails.
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

FAULT = Fault("TN102", "escapes-control-flow", __doc__, labels={"end": "traced here"})


_LONE = (
    r"'(?P<branch>[^'\n]+(?:'[^'\n]*'\])?)' must also be initialized in the \w+ branch"
    r"|'(?P<loop>[^\n]+?)' must be defined before the loop"
)


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value is used outside the branch or loop body that created it."""
    leak = raised.leak
    if leak is not None and leak.construct:
        return leak.finding(FAULT)
    lone = raised.says(_LONE, "ValueError", "UnboundLocalError")
    return _alone(raised, lone[0], lone["branch"] or lone["loop"]) if lone else None


def _alone(raised: Raised, said: str, name: str) -> Finding:
    """AutoGraph found while tracing that only one branch, or only the loop body, sets the value."""
    loop = "before the loop" in said
    return FAULT.finding(
        f"`{name}` is set only inside the loop" if loop else f"`{name}` is set in only one branch",
        [*raised.assignments("birth", name)[:1], *raised.use],
        reason="AutoGraph converts this to tf.cond or tf.while_loop. A value that a body creates is lost after it, unless every "
        "path through the code sets the name to a value of the same type.",
        fix=Fix(f"set `{name}` " + ("before the loop" if loop else "in both branches, or before the `if`")),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A symbolic value of a branch, a loop body or a mapped function is stored outside it."""
    for fact in found.of(facts.Escape):
        if fact.trace == "control flow":
            how, holder = fact.how, fact.kept_in
            loop = "." not in how  # `for` or `while`, which AutoGraph converts
            by = f"a `{how}` loop" if loop else how
            yield FAULT.finding(
                f"a value traced by {by} is stored in {holder}, which outlives the trace",
                fact.places(),
                reason="Each body of a control-flow construct is traced as a function of its own. Its values are valid only inside it.",
                fix=Fix(
                    "assign it to a name that is set before the loop, or write it to a `tf.TensorArray`"
                    if loop
                    else f"return the value from the function that you pass to {how}"
                ),
                evidence={"traced by": how, "kept in": holder},
            )
