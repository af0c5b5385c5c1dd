"""A session is used after it was closed.

What happens: RuntimeError "Attempted to use a closed Session.", or tenure's own SessionClosed, which names the places.

Why: Leaving the `with` block, or close(), ends a session for everybody who has it. The tensors are not gone: they
belong to the graph, and another session can run them. The values of variables are: they lived in the session.

Wrong:

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        total = tf.constant(1.0) + 2.0
        with v1.Session() as session:
            session.run(total)
        print(session.run(total))

Right:

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        total = tf.constant(1.0) + 2.0
        with v1.Session() as session:
            session.run(total)
            print(session.run(total))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault, known
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN201", "closed-session", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A session that was closed, by its `with`, by close(), or by Keras."""
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
            "The `with` block closes the session when it is left; the name stays, the session does not."
            if is_with
            else "close() ends a session for everybody who has it, in this thread or another."
        )
        + " The tensors are not gone: they belong to the graph, and any session of that graph can run them.",
        fix=Fix(
            f"move this line into the `with` block that opens {named}, or open a new session (variables start anew in it)"
            if is_with
            else f"close {named} behind its last use, or open a new session for this line"
        ),
        certain=bool(closings),
    )


def _ours(raised: Raised) -> Finding:
    """tenure's own session, whose error knows the places."""
    places = known(raised.exception, {"birth": "opened", "end": "closed", "use": "used"})
    return FAULT.finding(
        raised.message.partition("\n")[0] or "the session is used after it was closed",
        places or raised.use,
        reason="The end of its block, or close(), ends a session for everybody who has it. What was born in its runs, and was "
        "nobody's result, ended with it.",
        fix=Fix(
            "move this line before the end; or take `lease = session.lease()` before the end, for a helper, thread or task "
            "that goes on past it"
        ),
        at=places[-1] if places else None,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A session is used after its `with` block or after close()."""
    for seen in found.of("closed session"):
        yield FAULT.finding(
            f"this session was closed in line {seen.line('end')}",
            seen.places(),
            fix=Fix("move this into the `with` block, or before close()"),
        )
