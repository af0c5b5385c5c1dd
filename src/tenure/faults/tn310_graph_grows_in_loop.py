"""A loop adds operations to a graph in each iteration.

## What it means

In graph mode every call adds operations to the graph, and tf.constant adds all of its data. TensorFlow never
removes any.

## Why it hurts

The graph grows with each iteration, and so does the time of each run.

## Example

    for batch in batches:
        value = sess.run(features(tf.constant(batch)))

## Use instead

    images = tf.compat.v1.placeholder(tf.float32, [None, 96, 96, 3])
    output = features(images)
    sess.graph.finalize()                  # a later addition is now an error
    for batch in batches:
        value = sess.run(output, {images: batch})

## How to be sure

Print `len(sess.graph.get_operations())` in the loop: it grows. After `sess.graph.finalize()`, the line that
adds an operation raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN310", "graph-grows-in-loop", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A loop adds an operation to a graph that is finalized."""
    if not raised.says(r"Graph is finalized and cannot be modified", "RuntimeError"):
        return None
    if not raised.loops:
        return None
    return FAULT.finding(
        "this loop creates an operation, but the graph is finalized",
        [*raised.use, *raised.loops[-1:]],
        reason="In graph mode each call adds operations to the graph. finalize() turns that into an error, because a graph only grows.",
        fix=Fix(
            "create the operations once, before finalize() and the loop, and feed what changes through a placeholder"
        ),
        labels={"holder": "repeated here"},
    )


def in_run(leak: Leak) -> Finding | None:
    """The graph grew between runs of a session, and still did at the end."""
    if leak.what != "operations":
        return None
    return growth.told(
        FAULT,
        leak,
        f"the graph grew before {leak.count:,} session runs: the loop creates operations",
        Fix(
            "create the operations once, before the loop, and feed what changes through a placeholder; "
            "`graph.finalize()` turns a later addition into an error"
        ),
        "In graph mode each call adds operations to the graph, and tf.constant adds its data. TensorFlow never removes any.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Operations are created in the loop that runs them."""
    for fact in found.of(facts.GraphGrows):
        yield FAULT.finding(
            f"every {'call' if fact.calls else 'iteration'} adds operations to the graph that the session runs",
            fact.places(),
            reason="A TensorFlow graph only grows: runs become slower, and its constants stay in memory.",
            fix=Fix(
                "build the graph before the loop, with a placeholder for what changes; `tf.Graph.finalize()` finds such lines"
            ),
        )
