"""A variable or iterator is read in a session that did not initialise it.

## What it means

TensorFlow raises FailedPreconditionError: "Could not find variable", "Attempting to use uninitialized value",
"the iterator has not been initialized" or "Table not initialized".

The graph only describes a variable. Its value belongs to a session: the initializer creates it there, and it
is lost when that session is closed.

## Why it hurts

The program stops. A second session has none of the values of the first one, however long that one trained.

## Example

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        w = v1.get_variable("w", [2])
        with v1.Session() as session:
            print(session.run(w * 2.0))

## Use instead

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default():
        w = v1.get_variable("w", [2])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            print(session.run(w * 2.0))

## How to be sure

Run `session.run(tf.compat.v1.report_uninitialized_variables())` before the failing line: it lists the
variables that have no value in this session.
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

FAULT = Fault("TN204", "not-initialized-in-session", __doc__)

_SAYS = (
    r"Attempting to use uninitialized value (?P<a>\S+)|[Ff]ailed because the iterator has not been initialized"
    r"|(?:resource variable|variable) (?P<b>\S+) from Container.*uninitialized|This could mean that the variable was uninitialized"
    r"|Could not find variable (?P<c>\S+?)\. .*(?:uninitialized|deleted)|[Tt]able not initialized|Table already initialized"
    r"|Variables? not initialized: (?P<d>\S+)|is uninitialized"
)
_KINDS = ("FailedPreconditionError", "NotFoundError", "RuntimeError", "InvalidArgumentError")


def in_exception(raised: Raised) -> Finding | None:
    """A variable, iterator or table was not initialised in the session that runs it."""
    said = raised.says(_SAYS, *_KINDS)
    if not said or not (
        raised.graphs.is_graph_mode or any("client/session.py" in frame.file for frame in raised.stack)
    ):
        return None
    name = next((text for text in said.groups() if text), "").strip("'\"")
    iterator = "iterator" in said.group(0)
    what = "the iterator" if iterator else f"variable `{name}`" if name else "a variable or table"
    trained = "" if iterator else raised.graphs.initialised_session()
    born = [raised.place("birth", raised.born[-1])] if raised.born else raised.graphs.births
    return FAULT.finding(
        f"{what} was never initialised in this session",
        [*born, *raised.use],
        reason="The graph only describes a variable, table or iterator. Its value belongs to a session: it is created when the "
        "initializer runs there, and is lost when that session is closed. Other sessions do not have it.",
        fix=Fix(
            "run `iterator.initializer` in this session before you use `get_next()`"
            if iterator
            else f"run it in `{trained}`, the session that has the values: `{trained}.run(…)`; a new session has none of them"
            if trained
            else "first run `tf.compat.v1.global_variables_initializer()`, created after the last variable, in this session, "
            "or restore a checkpoint into it"
        ),
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A variable or iterator is run before its initializer."""
    for fact in found.of(facts.NotInitialised):
        what = fact.what
        yield FAULT.finding(
            f"this {what} is not initialised in the session that runs it",
            fact.places(),
            fix=Fix(
                "first run its initializer in this session"
                + (", together with the others" if what == "iterator" else "")
            ),
        )
