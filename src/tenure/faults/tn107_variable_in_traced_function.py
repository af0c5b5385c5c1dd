"""A variable is created inside a traced function, again at each trace.

What happens: ValueError "tf.function only supports singleton tf.Variables created on the first call".

Why: A variable lives across calls. A tf.function may create it once, while it is first traced; when it is traced again,
for another argument, another model or another optimizer, it would create a second one.

Wrong:

    import tensorflow as tf

    @tf.function
    def scale(x):
        w = tf.Variable(2.0)
        return w * x

    scale(tf.ones(2))

Right:

    import tensorflow as tf

    w = tf.Variable(2.0)

    @tf.function
    def scale(x):
        return w * x

    print(scale(tf.ones(2)))
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
    """A variable that a traced function makes anew on a later trace."""
    if not raised.says(_SAYS, "ValueError", "UnliftableError", "RuntimeError"):
        return None
    return FAULT.finding(
        "a tf.Variable is created inside a traced function on a call that is not its first",
        raised.use,
        reason="A variable lives across calls, so a tf.function may create it only once, while it is traced first. "
        "Another model, optimizer or argument makes it trace again, and then it would create a second one.",
        fix=Fix(
            "create the variable before the tf.function is called (build the model and the optimizer first), keep it on "
            "the object, or wrap a tf.function for each model: step = tf.function(make_step(model))"
        ),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A variable is made in a traced function, unconditionally."""
    for seen in found.of("variable in trace"):
        yield FAULT.finding(
            "a variable is created each time this function is traced",
            seen.places(),
            reason="A tf.function may create variables on its first call only; it is traced again for new arguments.",
            fix=Fix(
                "create the variable outside and pass it in, or keep it on an object: if self.v is None: self.v = ..."
            ),
        )
