"""A graph tensor is evaluated where no session is the default.

What happens: ValueError "Cannot evaluate tensor using `eval()`: No default session is registered".

Why: A session is the default one only inside its own `with` block, and only in that thread.

Wrong:

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        total = tf.constant(1.0) + 2.0
        session = v1.Session()
        print(total.eval())

Right:

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        total = tf.constant(1.0) + 2.0
        session = v1.Session()
        print(total.eval(session=session))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Edit, Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN203", "no-default-session", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """eval() or run() of a tensor or operation where no session is the default one."""
    if not raised.says(
        r"No default\s+session is registered|default session (?:must|should) be|Either session argument should be provided"
    ):
        return None
    name = raised.graphs.open_session()
    return FAULT.finding(
        "eval() or run() is called on a tensor where no session is the default",
        [*raised.graphs.births, *raised.use],
        reason="A session is the default one only inside its own `with` block, and only in that thread. "
        "One that was made by an assignment is open, but is nobody's default.",
        fix=Fix(
            f"name the session, as in eval(session={name or 'sess'}), or put the line into `with {name or 'sess'}.as_default():`",
            edits=raised.added(f"session={name}", "eval", "run", at=raised.here.line) if name and raised.here else (),
        ),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """`eval()` where no session is the default."""
    for seen in found.of("no default session"):
        node, name = seen.node("use"), seen.data.get("session")
        edits: tuple[Edit, ...] = ()
        if name:
            last = [*node.args, *(word.value for word in node.keywords)]
            edits = (
                seen.after("use", last[-1], f", session={name}")
                if last
                else seen.replace("use", node, f"{seen.text('use', node.func)}(session={name})")
            )
        yield FAULT.finding(
            "eval() needs a session, and none is the default here",
            seen.places(),
            fix=Fix(f"say which: eval(session={name or 'sess'})", safe=bool(edits), edits=edits),
        )
