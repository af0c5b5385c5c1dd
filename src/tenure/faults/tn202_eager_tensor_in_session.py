"""An eager tensor is used in a graph session, whose graph does not contain it.

## What it means

TensorFlow raises RuntimeError, "The Session graph is empty", or AttributeError, "Tensor.graph is undefined
when eager execution is enabled".

TensorFlow 2 runs operations immediately. A session runs a graph, and eager operations are not added to any
graph. The tensor is neither out of scope nor freed: it already has its value.

A program written for TensorFlow 1 stops earlier: TensorFlow 2 has no `tf.Session`, no `tf.placeholder` and no
`tf.get_variable`.

## Why it hurts

The session can never run an eager tensor, however the code around it is arranged.

## Example

    import tensorflow as tf

    total = tf.constant(1.0) + 2.0
    with tf.compat.v1.Session() as session:
        print(session.run(total))

## Use instead

    import tensorflow as tf

    total = tf.constant(1.0) + 2.0
    print(total.numpy())

## How to be sure

Call `tf.executing_eagerly()` where the tensor is created: it returns True. `session.graph.get_operations()`
does not contain the operation; often it is empty.
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

FAULT = Fault("TN202", "eager-tensor-in-session", __doc__)

_EMPTY = r"The Session graph is empty"
_OTHER = (
    r"Tensor\.\w+ is undefined when eager execution is enabled|eval is not supported when eager execution is enabled"
    r"|should be a function when eager execution is enabled|"
    r"Attempting to capture an EagerTensor without building a function"
    r"|Argument `fetch` = [^\n]*has invalid type \"(?:_UnreadVariable|ResourceVariable|EagerTensor)\""
    r"|Fetch argument .*(?:EagerTensor|numpy=).*has invalid type|Tensors? .*EagerTensor.*(?:not an element|is not supported)"
    r"|The value of a feed cannot be a tf\.Tensor object|Cannot use an eager tensor"
    r"|global_variables_initializer.*eager|tf\.(?:placeholder|compat\.v1\.placeholder)\(\) is not compatible with eager execution"
    r"|(?:Optimizer|minimize|tf\.gradients|get_variable|Session).{0,80}(?:not (?:supported|compatible)).{0,40}eager execution"
)


def in_exception(raised: Raised) -> Finding | None:
    """A session is used with eager tensors: its graph is empty."""
    empty = raised.says(_EMPTY)
    if not (empty and not raised.graphs.is_graph_mode) and not raised.says(_OTHER):
        return None
    return FAULT.finding(
        "the tensors are eager and already have values; the session's graph is empty"
        if empty
        else "an eager tensor is used where a graph tensor is required",
        [*raised.graphs.births, *raised.use],
        reason="TensorFlow 2 runs operations immediately. A Session runs a graph, and eager operations are not added to any graph. "
        "The tensor is neither out of scope nor freed: it was never in that graph.",
        fix=Fix(
            "remove the session and read the value with `.numpy()`; or create the tensors inside "
            "`with tf.Graph().as_default():`, or after `tf.compat.v1.disable_eager_execution()`, and run them there"
        ),
        certain=bool(empty) and bool(raised.sources),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A session is asked to run something that was computed eagerly, or the program needs TensorFlow 1."""
    for first_version in found.of(facts.FirstVersion):
        name = first_version.name
        kept = "contrib" not in name and "examples" not in name
        yield FAULT.finding(
            f"`{name}` does not exist in TensorFlow 2: this program is written for TensorFlow 1",
            first_version.places(),
            reason="TensorFlow 2 removed graph sessions and what belongs to them from its main names, and runs operations immediately.",
            fix=Fix(
                "write `import tensorflow.compat.v1 as tf` and call `tf.disable_v2_behavior()` right after it"
                if kept
                else "port it to TensorFlow 2: this part has no counterpart there, not even in `tensorflow.compat.v1`"
            ),
        )
    for eager_in_session in found.of(facts.EagerInSession):
        yield FAULT.finding(
            "a placeholder needs a graph, but operations run immediately here"
            if eager_in_session.placeholder
            else "this session is asked to run an eager tensor, which is not in its graph",
            eager_in_session.places(),
            reason="In TensorFlow 2 operations run immediately, unless eager execution is disabled or a graph is the default.",
            fix=Fix(
                "call `tf.compat.v1.disable_eager_execution()` first, or create it inside `with tf.Graph().as_default():`"
            ),
            labels={"holder": "session opened here"},
        )
    for eager_in_graph in found.of(facts.EagerInGraph):
        yield FAULT.finding(
            "a graph operation cannot use this eager tensor",
            eager_in_graph.places(),
            reason="Inside the block of a graph or session, operations are added to the graph, not run. They accept only tensors of "
            "that graph.",
            fix=Fix("create the tensor inside the block, or pass its value: `x.numpy()`"),
        )
