"""A tensor is used after the graph that it belongs to was reset.

What happens: The errors of TN103, for tensors that worked before reset_default_graph() or Keras' clear_session().

Why: The reset puts a new graph in the place of the default one. It frees nothing that the program still has: old
tensors keep their old graph alive, and fit no new session.

Wrong:

    import tensorflow as tf
    v1 = tf.compat.v1

    def build():
        return v1.placeholder(tf.float32, name="x") * 2.0

    with tf.Graph().as_default():
        doubled = build()
    v1.reset_default_graph()
    with v1.Session() as session:
        session.run(doubled)

Right:

    import tensorflow as tf
    v1 = tf.compat.v1

    def build():
        return tf.constant(3.0, name="x") * 2.0

    v1.reset_default_graph()
    with tf.Graph().as_default():
        doubled = build()
        with v1.Session() as session:
            print(session.run(doubled))
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

FAULT = Fault("TN104", "graph-was-reset", __doc__)

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
        f"{raised.graphs.tensor} was built in the default graph that was reset since",
        [*raised.graphs.births, *resets, *raised.use],
        reason="reset_default_graph() puts a new, empty graph in the place of the default one. "
        "Tensors that were built before stay in the old graph, and no later session or operation can use them.",
        fix=Fix("build the tensor again after the reset, inside the function that builds the rest of the graph"),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor built before the default graph was reset is used after it."""
    for seen in found.of("other graph"):
        if seen.data["reset"]:
            yield FAULT.finding(
                "this tensor's graph was reset before it is used",
                seen.places(),
                reason="reset_default_graph() begins a new graph. What was built before belongs to the old one.",
                fix=Fix("build the tensor after reset_default_graph()"),
            )
