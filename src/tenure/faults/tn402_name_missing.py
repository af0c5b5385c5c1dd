"""A variable is requested under a name that does not exist.

## What it means

TensorFlow raises ValueError, "Variable s/w does not exist, or was not created with tf.get_variable()".
tenure's own variables and stores raise NameMissing.

reuse=True finds only variables that get_variable() created earlier, in the same graph and under the same
scopes. In eager mode get_variable() does not register names.

## Why it hurts

The program stops. With reuse=False it would create a new, untrained variable instead.

## Example

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default(), v1.variable_scope("s", reuse=True):
        w = v1.get_variable("w", [2])

## Use instead

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default(), v1.variable_scope("s", reuse=v1.AUTO_REUSE):
        w = v1.get_variable("w", [2])
    print(w.name)

## How to be sure

Print `[v.name for v in tf.compat.v1.global_variables()]` before the failing line, in the same graph: the list
does not contain the name.
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

FAULT = Fault("TN402", "name-missing", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A variable to be reused was never created under that name."""
    said = raised.says(
        r"Variable (?P<name>\S+) does not exist, (?:or was not created with tf\.get_variable|disallowed)"
    )
    eager = raised.says(r"Variable (?P<name>\S+) did not get an initializer, so its `shape` argument must be specified")
    if eager and raised.mentions("reuse"):
        return _eager(raised, eager["name"])
    if not said and raised.kind != "NameMissing":
        return None
    if not said:
        return _ours(raised)
    name = f"variable `{said['name']}`"
    return FAULT.finding(
        f"{name} does not exist, so it cannot be reused",
        raised.use,
        reason="reuse=True finds only variables that get_variable() created earlier, in the same graph and the same scopes. "
        "It does not find a tf.Variable().",
        fix=Fix("create it first without reuse, use `reuse=tf.compat.v1.AUTO_REUSE`, or correct the scope's name"),
    )


def _ours(raised: Raised) -> Finding:
    """Explain the error of tenure's own stores and variables, which carries the places."""
    places = known(raised.exception, {"birth": "near", "use": "asked"})
    return FAULT.finding(
        raised.message.partition("\n")[0] or "nothing exists under this name",
        places if any(place.role == "use" for place in places) else [*places, *raised.use],
        reason="A name exists only in its own store and under its own prefix, until it is deleted.",
        fix=Fix(
            'create it first; or use `reuse="auto"` for a variable, which creates it if it does not exist; '
            "use `store.get(name)` for a tensor; or correct the name"
        ),
    )


def _eager(raised: Raised, name: str) -> Finding:
    return FAULT.finding(
        f"variable `{name}` cannot be reused: in eager mode get_variable() does not register names",
        raised.use,
        reason="Variable names belong to a graph. Without one, each get_variable() creates a new variable, and reuse finds none.",
        fix=Fix(
            "pass the variable itself (return it, or store it on an object), or create both inside one "
            "`with tf.Graph().as_default():`"
        ),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """get_variable() is called under reuse=True with a name that does not exist."""
    for fact in found.of(facts.NameMissing):
        yield FAULT.finding(
            f"the variable {fact.name!r} does not exist, so it cannot be reused",
            fact.places(),
            fix=Fix("create it first, or use `reuse=tf.compat.v1.AUTO_REUSE`"),
        )
