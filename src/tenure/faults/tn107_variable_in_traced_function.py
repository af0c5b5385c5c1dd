"""A variable is created inside a traced function, again at each trace.

## What it means

TensorFlow raises ValueError, "tf.function only supports singleton tf.Variables created on the first call".

A variable persists across calls. A tf.function may create it only once, during its first trace. Another
argument, model or optimizer causes a new trace, which would create a second variable.

## Why it hurts

The program stops. Without the check, each trace would start again with a new variable.

## Example

    import tensorflow as tf

    @tf.function
    def scale(x):
        w = tf.Variable(2.0)
        return w * x

    scale(tf.ones(2))

## Use instead

    import tensorflow as tf

    w = tf.Variable(2.0)

    @tf.function
    def scale(x):
        return w * x

    print(scale(tf.ones(2)))

## How to be sure

Add `print("tracing")` to the function: it prints once per trace, not once per call. A second "tracing" before
the error shows that a second trace tried to create the variable.
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

FAULT = Fault("TN107", "variable-in-traced-function", __doc__)

_SAYS = (
    r"tf\.function only supports singleton tf\.Variables created on the first call"
    r"|tf\.function-decorated function tried to create variables on non-first call"
    r"|Creating variables on a non-first call|created on a non-first call"
    r"|Variables? .* (?:was|were) created inside a (?:tf\.function|function) (?:that|which)"
    r"|Tensor-typed variable initializers must either be wrapped in an init_scope"
    r"|Unable to lift tensor .* because it depends transitively on placeholder"
)


def in_exception(raised: Raised) -> Finding | None:
    """A traced function creates another variable in a later trace."""
    if not raised.says(_SAYS, "ValueError", "UnliftableError", "RuntimeError"):
        return None
    return FAULT.finding(
        "a tf.function creates a tf.Variable on a call that is not its first",
        raised.use,
        reason="A variable persists across calls, so a tf.function may create it only once, during its first trace. "
        "Another model, optimizer or argument causes a new trace, which would create a second variable.",
        fix=Fix(
            "create the variable before the call (build the model and the optimizer first), store it on "
            "the object, or create one tf.function per model: `step = tf.function(make_step(model))`"
        ),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A traced function creates a variable unconditionally."""
    for fact in found.of(facts.VariableInTrace):
        yield FAULT.finding(
            "this tf.function creates a new variable each time it is traced",
            fact.places(),
            reason="A tf.function may create variables only on its first call, but it is traced again for new arguments.",
            fix=Fix(
                "create the variable outside and pass it in, or store it on an object: `if self.v is None: self.v = ...`"
            ),
        )
