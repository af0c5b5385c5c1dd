"""An eager tensor is fetched from a graph session, whose graph does not know it.

What happens: RuntimeError "The Session graph is empty", or AttributeError "Tensor.graph is undefined when eager
execution is enabled".

Why: TensorFlow 2 runs operations at once. A session runs a graph, and nothing was put into its graph. The tensor is
neither out of scope nor freed; it has its value already.

Wrong:

    import tensorflow as tf

    total = tf.constant(1.0) + 2.0
    with tf.compat.v1.Session() as session:
        print(session.run(total))

Right:

    import tensorflow as tf

    total = tf.constant(1.0) + 2.0
    print(total.numpy())
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

FAULT = Fault("TN202", "eager-tensor-in-session", __doc__)

_EMPTY = r"The Session graph is empty"
_OTHER = (
    r"Tensor\.\w+ is undefined when eager execution is enabled|eval is not supported when eager execution is enabled"
    r"|should be a function when eager execution is enabled|"
    r"Attempting to capture an EagerTensor without building a function"
    r"|Fetch argument .*(?:EagerTensor|numpy=).*has invalid type|Tensors? .*EagerTensor.*(?:not an element|is not supported)"
    r"|The value of a feed cannot be a tf\.Tensor object|Cannot use an eager tensor"
    r"|global_variables_initializer.*eager|tf\.(?:placeholder|compat\.v1\.placeholder)\(\) is not compatible with eager execution"
    r"|(?:Optimizer|minimize|tf\.gradients|get_variable|Session).{0,80}(?:not (?:supported|compatible)).{0,40}eager execution"
)


def in_exception(raised: Raised) -> Finding | None:
    """A session over eager tensors: its graph has nothing in it."""
    empty = raised.says(_EMPTY)
    if not (empty and not raised.graphs.is_graph_mode) and not raised.says(_OTHER):
        return None
    return FAULT.finding(
        "the tensors here are eager: they have their values already, and the session's graph is empty"
        if empty
        else "an eager tensor is used where a tensor of a graph is needed",
        [*raised.graphs.births, *raised.use],
        reason="TensorFlow 2 runs operations at once. A Session runs a graph, and in a program that runs eagerly nothing was "
        "put into it. The tensor is not out of scope and was not freed: it never was in that graph.",
        fix=Fix(
            "drop the session and read the value with .numpy(); or build the tensors inside `with tf.Graph().as_default():` "
            "(or after tf.compat.v1.disable_eager_execution(), at the start of the program) and run them there"
        ),
        certain=bool(empty) and bool(raised.sources),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A session is asked for something that was computed eagerly."""
    for seen in found.of("eager in session"):
        yield FAULT.finding(
            "this session's graph does not contain what it is asked to run: it was computed eagerly",
            seen.places(),
            reason="In TensorFlow 2 operations run at once unless eager execution is off or a graph is the default.",
            fix=Fix("call tf.compat.v1.disable_eager_execution() first, or build in `with tf.Graph().as_default():`"),
        )
    for seen in found.of("eager in graph"):
        yield FAULT.finding(
            "an eager tensor is used in an operation of a graph, which cannot take it",
            seen.places(),
            reason="Inside a session's or a graph's block operations are built, not run: they take tensors of that graph.",
            fix=Fix("make the tensor inside the block, or give its value: x.numpy()"),
        )
