"""Operations are added to a graph in each turn of a loop.

In graph mode every call adds operations to the graph, tf.constant with all of its data, and nothing is ever taken out.
In a loop the graph grows with each turn, and so does the time of each run.

Wrong:

    for batch in batches:
        value = sess.run(features(tf.constant(batch)))

Right:

    images = tf.compat.v1.placeholder(tf.float32, [None, 96, 96, 3])
    output = features(images)
    sess.graph.finalize()                  # a later addition is an error now
    for batch in batches:
        value = sess.run(output, {images: batch})
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.check.facts import Found
    from tenure.findings import Finding

FAULT = Fault("TN310", "graph-grows-in-loop", __doc__)


def in_run(leak: Leak) -> Finding | None:
    """Each run of a session came with a larger graph than the one before."""
    if leak.what != "operations":
        return None
    return growth.told(
        FAULT,
        leak,
        f"the graph grew before each of {leak.count:,} runs: operations are made in the loop",
        Fix(
            "make the operations once, before the loop, and feed what changes through a placeholder; "
            "graph.finalize() makes a later addition an error"
        ),
        "In graph mode each call adds operations (a constant with its data) to the graph, and nothing is ever taken out.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Operations are built in the loop that runs them."""
    for seen in found.of("graph grows"):
        yield FAULT.finding(
            "every turn of this loop adds operations to the graph that the session runs",
            seen.places(),
            reason="A TensorFlow graph only grows. Runs become slower, and its constants stay.",
            fix=Fix(
                "build before the loop, with a placeholder for what changes; tf.Graph.finalize() shows such places"
            ),
        )
