"""A tensor is used in a graph that is not its own.

What happens: ValueError "must be from the same graph", "is not an element of this graph", or RuntimeError "The Session
graph is empty" in another thread.

Why: A tensor belongs to the graph that was the default one when it was built, and only sessions of that graph can run
it. The default graph is the thread's own: a new thread has another, empty one.

Wrong:

    import tensorflow as tf

    first, second = tf.Graph(), tf.Graph()
    with first.as_default():
        x = tf.constant(1.0, name="x")
    with second.as_default():
        y = x + tf.constant(2.0)

Right:

    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        x = tf.constant(1.0, name="x")
        y = x + tf.constant(2.0)
    with tf.compat.v1.Session(graph=graph) as session:
        print(session.run(y))
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

FAULT = Fault("TN103", "belongs-to-another-graph", __doc__)

_SAYS = (
    r"is not an element of this graph|(?:must|should) be from the same graph|graph is different from the|does not belong to the same graph"
    r"|is not from the (?:passed-in|same) graph|from a different graph"
    r"|Input \d+ of node .* was passed .* from a different|from different graphs"
)


def in_exception(raised: Raised) -> Finding | None:
    """A tensor, operation or variable of one graph, used with another."""
    said = raised.says(_SAYS, "ValueError", "TypeError", "RuntimeError")
    graphs = raised.graphs
    threaded = any(frame.file.endswith(("threading.py", "concurrent/futures/thread.py")) for frame in raised.stack)
    empty = raised.says("The Session graph is empty")
    if not said and not (empty and (graphs.is_graph_mode or (threaded and not raised.sources))):
        return None
    why = "A tensor can only be used with the graph that it was built in, and by sessions of that graph."
    if threaded:
        why += " The default graph belongs to a thread: in this one it is another, empty graph."
    elif not said:
        why += " This session was opened on another graph, which is empty."
    return FAULT.finding(
        f"{graphs.tensor} belongs to another graph than the one it is used with",
        [*graphs.births, *graphs.graph_places, *raised.use],
        reason=why,
        fix=Fix(
            "remember the graph that the tensor was built in, and open the session on it: "
            "tf.compat.v1.Session(graph=graph); build what belongs together inside one `with graph.as_default():`"
        ),
        certain=bool(said),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor of one graph is used in another, or run in a session of another."""
    for seen in found.of("other graph"):
        if not seen.data["reset"]:
            yield FAULT.finding(
                "this tensor belongs to another graph than the one it is used in",
                seen.places(),
                fix=Fix("use it in a session of its own graph, or build both in one graph"),
            )
