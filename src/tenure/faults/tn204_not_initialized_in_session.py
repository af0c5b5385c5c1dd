"""A variable or iterator is read in a session that did not initialise it.

What happens: FailedPreconditionError "Could not find variable", "Attempting to use uninitialized value", "the iterator
has not been initialized", "Table not initialized".

Why: The graph describes a variable; its value lives in a session. It begins when the initializer runs there, and ends
with that session.

Wrong:

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        w = v1.get_variable("w", [2])
        with v1.Session() as session:
            print(session.run(w * 2.0))

Right:

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        w = v1.get_variable("w", [2])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            print(session.run(w * 2.0))
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

FAULT = Fault("TN204", "not-initialized-in-session", __doc__)

_SAYS = (
    r"Attempting to use uninitialized value (?P<a>\S+)|[Ff]ailed because the iterator has not been initialized"
    r"|(?:resource variable|variable) (?P<b>\S+) from Container.*uninitialized|This could mean that the variable was uninitialized"
    r"|Could not find variable (?P<c>\S+?)\. .*(?:uninitialized|deleted)|[Tt]able not initialized|Table already initialized"
    r"|Variables? not initialized: (?P<d>\S+)|is uninitialized"
)
_KINDS = ("FailedPreconditionError", "NotFoundError", "RuntimeError", "InvalidArgumentError")


def in_exception(raised: Raised) -> Finding | None:
    """A variable, iterator or table that was not initialised in the session that runs it."""
    said = raised.says(_SAYS, *_KINDS)
    if not said or not (
        raised.graphs.is_graph_mode or any("client/session.py" in frame.file for frame in raised.stack)
    ):
        return None
    name = next((text for text in said.groups() if text), "").strip("'\"")
    iterator = "iterator" in said.group(0)
    what = "the iterator" if iterator else f"variable `{name}`" if name else "a variable or table"
    born = [raised.place("birth", raised.born[-1])] if raised.born else raised.graphs.births
    return FAULT.finding(
        f"{what} was never initialised in this session",
        [*born, *raised.use],
        reason="The graph only describes a variable, table or iterator. Its value lives in a session, begins when the initializer "
        "runs there, and ends with that session: another session knows nothing of it.",
        fix=Fix(
            "run `iterator.initializer` in this session before get_next()"
            if iterator
            else "run the initializer (tf.compat.v1.global_variables_initializer(), made after the last variable) in this session "
            "first, or restore a checkpoint into it"
        ),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A variable or iterator is run before its initializer."""
    for seen in found.of("not initialised"):
        what = seen.data["what"]
        yield FAULT.finding(
            f"this {what} has not been initialised in the session that runs it",
            seen.places(),
            fix=Fix(
                "run its initializer in this session first"
                + (", in a list with the others" if what == "iterator" else "")
            ),
        )
