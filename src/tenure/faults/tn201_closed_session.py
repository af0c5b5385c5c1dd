"""A session is used after it was closed.

## What it means

TensorFlow raises RuntimeError, "Attempted to use a closed Session.". tenure's own sessions raise
SessionClosed, which names the lines.

The end of the `with` block, or close(), closes a session for all code that uses it. The tensors still exist:
they belong to the graph, and another session can run them. Values of variables are lost, because they
belonged to the session.

## Why it hurts

The program stops, and the values of variables that were not saved are lost.

## Example

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        total = tf.constant(1.0) + 2.0
        with v1.Session() as session:
            session.run(total)
        print(session.run(total))

## Use instead

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        total = tf.constant(1.0) + 2.0
        with v1.Session() as session:
            session.run(total)
            print(session.run(total))

## How to be sure

Run the same tensor in a new session: `tf.compat.v1.Session(graph=total.graph).run(total)`. If that works
(variables must be initialized first), only the session was closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault, known
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN201", "closed-session", __doc__, labels={"birth": "opened here", "end": "closed here"})


def in_exception(raised: Raised) -> Finding | None:
    """A session was closed by its `with` block, by close(), or by Keras."""
    if not raised.says(
        r"Attempted to use a closed Session|Session has been closed|RuntimeError: Session is closed"
    ) and (raised.kind != "SessionClosed"):
        return None
    if raised.kind == "SessionClosed":
        return _ours(raised)
    closings = raised.graphs.closings()
    opened = raised.graphs.session()
    name = opened[2] if opened and opened[2] else "the session"
    named = f"`{name}`" if name != "the session" else name
    is_with = bool(closings) and "with " in closings[0].text
    return FAULT.finding(
        f"{named} is used after it was closed",
        [*closings, *raised.use],
        reason=(
            "The `with` block closes the session when it is left. The name still exists, but the session is closed."
            if is_with
            else "close() closes the session for all code that uses it, in every thread."
        )
        + " The tensors still exist: they belong to the graph, and any session of that graph can run them.",
        fix=Fix(
            f"move this line into the `with` block that opens {named}, or open a new session and initialise its variables"
            if is_with
            else f"close {named} after its last use, or open a new session for this line"
        ),
        certain=bool(closings),
    )


def _ours(raised: Raised) -> Finding:
    """Explain the error of tenure's own session, which carries the places."""
    places = known(raised.exception, {"birth": "opened", "end": "closed", "use": "used"})
    return FAULT.finding(
        raised.message.partition("\n")[0] or "the session is used after it was closed",
        places or raised.use,
        reason="The end of its block, or close(), closes the session for all code that uses it. Tensors that its runs created "
        "and did not return were released with it.",
        fix=Fix(
            "move this line before the session is closed; or, for a helper, thread or task that runs longer, call "
            "`lease = session.lease()` before it is closed"
        ),
        at=places[-1] if places else None,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A session is used after its `with` block or after close()."""
    for fact in found.of(facts.ClosedSession):
        yield FAULT.finding(
            f"this session was already closed in line {fact.line('end')}",
            fact.places(),
            fix=Fix("move this into the `with` block, or before close()"),
        )
