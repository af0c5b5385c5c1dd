"""A tensor is used in a graph that it does not belong to.

## What it means

TensorFlow raises ValueError, "must be from the same graph" or "is not an element of this graph"; in another
thread also RuntimeError, "The Session graph is empty".

A tensor belongs to the graph that was the default when the tensor was created. Only sessions of that graph
can run it. Each thread has its own default graph: a new thread starts with another, empty one.

## Why it hurts

The program stops at the first use. The line that chose the wrong graph is usually elsewhere.

## Example

    import tensorflow as tf

    first, second = tf.Graph(), tf.Graph()
    with first.as_default():
        x = tf.constant(1.0, name="x")
    with second.as_default():
        y = x + tf.constant(2.0)

## Use instead

    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        x = tf.constant(1.0, name="x")
        y = x + tf.constant(2.0)
    with tf.compat.v1.Session(graph=graph) as session:
        print(session.run(y))

## How to be sure

Compare the two graphs: `tensor.graph is session.graph` is False. In a thread, compare `tensor.graph` with
`tf.compat.v1.get_default_graph()`.
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

FAULT = Fault("TN103", "belongs-to-another-graph", __doc__)

_SAYS = (
    r"is not an element of this graph|(?:must|should) be from the same graph|graph is different from the|does not belong to the same graph"
    r"|is not from the (?:passed-in|same) graph|from a different graph"
    r"|Input \d+ of node .* was passed .* from a different|from different graphs"
)


def in_exception(raised: Raised) -> Finding | None:
    """A tensor, operation or variable of one graph is used with another."""
    said = raised.says(_SAYS, "ValueError", "TypeError", "RuntimeError")
    graphs = raised.graphs
    threaded = any(frame.file.endswith(("threading.py", "concurrent/futures/thread.py")) for frame in raised.stack)
    empty = raised.says("The Session graph is empty")
    if not said and not (empty and (graphs.is_graph_mode or (threaded and not raised.sources))):
        return None
    why = "A tensor can be used only in the graph in which it was created, and by sessions of that graph."
    if threaded:
        why += " Each thread has its own default graph; in this thread it is another, empty graph."
    elif not said:
        why += " This session was opened on another, empty graph."
    return FAULT.finding(
        f"{graphs.tensor} is used with a graph that it does not belong to",
        [*graphs.births, *graphs.graph_places, *raised.use],
        reason=why,
        fix=Fix(
            "keep a reference to the graph of the tensor, and open the session on it: "
            "`tf.compat.v1.Session(graph=graph)`; create related tensors inside one `with graph.as_default():`"
        ),
        certain=bool(said),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A tensor of one graph is used in another, or run in a session of another."""
    for fact in found.of(facts.OtherGraph):
        if not fact.reset:
            yield FAULT.finding(
                "this tensor is used in a graph that it does not belong to",
                fact.places(),
                fix=Fix("use it in a session of its own graph, or create both in one graph"),
            )
