"""A value that was created while a function was traced (tf.function, jit, grad, vmap) is used outside that trace.

## What it means

TensorFlow raises TypeError or InaccessibleTensorError, "is out of scope and cannot be used here". JAX raises
UnexpectedTracerError.

A traced function runs its Python code once, to record operations. Its values are symbolic. An attribute, a
list or a global variable that stores one keeps it after the trace.

## Why it hurts

A symbolic value never gets a number, so every later use fails, often far from the line that stored it. Eager
tensors are different: they are valid as long as something references them.

## Example

    import tensorflow as tf

    norms = []

    @tf.function
    def step(x):
        norms.append(tf.norm(x))
        return x * 2

    step(tf.ones(3))
    print(tf.add(norms[0], 1.0))

## Use instead

    import tensorflow as tf

    @tf.function
    def step(x):
        return x * 2, tf.norm(x)

    doubled, norm = step(tf.ones(3))
    print(tf.add(norm, 1.0))

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

FAULT = Fault("TN101", "escapes-traced-function", __doc__, labels={"end": "traced here"})


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value is used outside the function whose trace created it."""
    leak = raised.leak
    if leak is None or leak.construct:
        return None
    return leak.finding(FAULT)


def in_source(found: Found) -> Iterator[Finding]:
    """A symbolic value is stored in an object that existed before the trace."""
    for fact in found.of(facts.Escape):
        if fact.trace == "function":
            how, holder = fact.how, fact.kept_in
            yield FAULT.finding(
                f"a value traced by {how} is stored in {holder}, which outlives the trace",
                fact.places(),
                reason="Values in a traced function are symbolic. They are valid only until the trace ends.",
                fix=Fix("return the value from the traced function and store what the call returns"),
                evidence={"traced by": how, "kept in": holder},
            )
