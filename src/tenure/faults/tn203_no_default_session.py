"""A graph tensor is evaluated where there is no default session.

## What it means

TensorFlow raises ValueError, "Cannot evaluate tensor using `eval()`: No default session is registered".

A session is the default only inside its own `with` block, and only in that thread. A session that is only
assigned to a name is open, but is not the default.

## Why it hurts

eval() and run() on a tensor or operation cannot find a session, so the program stops.

## Example

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        total = tf.constant(1.0) + 2.0
        session = v1.Session()
        print(total.eval())

## Use instead

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        total = tf.constant(1.0) + 2.0
        session = v1.Session()
        print(total.eval(session=session))

## How to be sure

Call `tf.compat.v1.get_default_session()` before the failing line: it returns None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Edit, Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN203", "no-default-session", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """eval() or run() of a tensor or operation where no session is the default one."""
    if not raised.says(
        r"No default\s+session is registered|default session (?:must|should) be|Either session argument should be provided"
    ):
        return None
    name, usable = raised.graphs.only_session()
    if name and not usable:
        return FAULT.finding(
            f"eval() or run() needs a default session, but `{name}` is closed or unknown here",
            [*raised.graphs.births, *raised.use],
            reason="A session is the default only inside its own `with` block, and only in that thread. "
            "The end of the block closes it.",
            fix=Fix(
                f"move this line into the `with` block that opens `{name}`, or pass an open session to this function"
            ),
        )
    return FAULT.finding(
        "eval() or run() needs a default session, but there is none here",
        [*raised.graphs.births, *raised.use],
        reason="A session is the default only inside its own `with` block, and only in that thread. "
        "A session that is only assigned to a name is open, but is not the default.",
        fix=Fix(
            f"pass the session, `eval(session={name or 'sess'})`, or move the line into `with {name or 'sess'}.as_default():`",
            edits=raised.added(f"session={name}", "eval", "run", at=raised.here.line) if name and raised.here else (),
        ),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """`eval()` where no session is the default."""
    for fact in found.of(facts.NoDefaultSession):
        node, name = fact.node("use"), fact.session
        edits: tuple[Edit, ...] = ()
        if name:
            last = [*node.args, *(word.value for word in node.keywords)]
            edits = (
                fact.after("use", last[-1], f", session={name}")
                if last
                else fact.replace("use", node, f"{fact.text('use', node.func)}(session={name})")
            )
        yield FAULT.finding(
            "eval() needs a default session, but there is none here",
            fact.places(),
            fix=Fix(f"pass the session: `eval(session={name or 'sess'})`", safe=bool(edits), edits=edits),
        )
