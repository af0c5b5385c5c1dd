"""A tensor is used after the graph that it belongs to was reset.

## What it means

The errors are those of TN103, but for tensors that worked before `reset_default_graph()` or Keras'
`clear_session()` was called.

The reset replaces the default graph with a new one. It does not free tensors that the program still
references: old tensors keep their old graph alive, but new sessions cannot run them.

## Why it hurts

The program stops at the first use after the reset, and the old graph stays in memory as long as one of its
tensors does.

## Example

    import tensorflow as tf
    v1 = tf.compat.v1

    def build():
        return v1.placeholder(tf.float32, name="x") * 2.0

    with tf.Graph().as_default():
        doubled = build()
    v1.reset_default_graph()
    with v1.Session() as session:
        session.run(doubled)

## Use instead

    import tensorflow as tf
    v1 = tf.compat.v1

    def build():
        return tf.constant(3.0, name="x") * 2.0

    v1.reset_default_graph()
    with tf.Graph().as_default():
        doubled = build()
        with v1.Session() as session:
            print(session.run(doubled))

## How to be sure

Compare the graphs before and after the reset: `tensor.graph is tf.compat.v1.get_default_graph()` changes from
True to False.
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

FAULT = Fault("TN104", "graph-was-reset", __doc__, labels={"end": "reset here"})

_SAYS = (
    r"is not an element of this graph|(?:must|should) be from the same graph|graph is different from the|does not belong to the same graph"
    r"|is not from the (?:passed-in|same) graph|from a different graph"
    r"|Input \d+ of node .* was passed .* from a different|from different graphs"
)


def in_exception(raised: Raised) -> Finding | None:
    """A tensor of the default graph from before `reset_default_graph` (or Keras' `clear_session`)."""
    said = raised.says(_SAYS, "ValueError", "TypeError", "RuntimeError") or raised.says("The Session graph is empty")
    resets = raised.graphs.resets if said else []
    if not resets or not (raised.graphs.births or raised.graphs.is_graph_mode):
        return None
    return FAULT.finding(
        f"{raised.graphs.tensor} belongs to a default graph that was reset",
        [*raised.graphs.births, *resets, *raised.use],
        reason="reset_default_graph() replaces the default graph with a new, empty one. "
        "Tensors that were created before stay in the old graph. Later sessions and operations cannot use them.",
        fix=Fix("create the tensor again after the reset, in the function that builds the rest of the graph"),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor that was created before the default graph was reset is used afterwards."""
    for fact in found.of(facts.OtherGraph):
        if fact.reset:
            yield FAULT.finding(
                "this tensor's graph was reset before this use",
                fact.places(),
                reason="reset_default_graph() starts a new graph. Tensors that were created before belong to the old one.",
                fix=Fix("create the tensor after reset_default_graph()"),
            )
