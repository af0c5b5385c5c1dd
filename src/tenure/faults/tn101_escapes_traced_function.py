"""A value made inside a traced function (tf.function, jit, grad, vmap) is used outside of it.

What happens: TensorFlow: TypeError or InaccessibleTensorError, "is out of scope and cannot be used here". JAX:
UnexpectedTracerError.

Why: A traced function runs its Python code once, to record operations. The values in it are symbolic, and end with the
trace. What is kept on the side, in an attribute, a list, a global, is such a value. A tensor made by eager code is
another thing: it lives as long as something refers to it.

Wrong:

    import tensorflow as tf

    norms = []

    @tf.function
    def step(x):
        norms.append(tf.norm(x))
        return x * 2

    step(tf.ones(3))
    print(tf.add(norms[0], 1.0))

Right:

    import tensorflow as tf

    @tf.function
    def step(x):
        return x * 2, tf.norm(x)

    doubled, norm = step(tf.ones(3))
    print(tf.add(norm, 1.0))
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

FAULT = Fault("TN101", "escapes-traced-function", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value outside of the function whose trace made it."""
    leak = raised.leak
    if leak is None or leak.construct:
        return None
    return leak.finding(FAULT)


def in_source(found: Found) -> Iterator[Finding]:
    """A symbol is left in something that was there before the trace."""
    for seen in found.of("escape"):
        if seen.data["trace"] == "function":
            how, holder = seen.data["how"], seen.data["holder"]
            yield FAULT.finding(
                f"a value made while {how} was tracing is left in {holder}, where it outlives the trace",
                seen.places(),
                reason="Inside a traced function values are symbols. When the trace ends they stand for nothing.",
                fix=Fix("return the value from the traced function and keep what the call returns"),
                evidence={"traced by": how, "kept in": holder},
            )
