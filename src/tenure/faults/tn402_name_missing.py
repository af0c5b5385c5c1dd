"""There is no variable of that name to share.

What happens: ValueError "Variable s/w does not exist, or was not created with tf.get_variable()", or tenure's own
NameMissing.

Why: reuse=True finds what get_variable() has made before, in the same graph and under the same scopes. In a program
that runs eagerly it keeps no names at all.

Wrong:

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default(), v1.variable_scope("s", reuse=True):
        w = v1.get_variable("w", [2])

Right:

    import tensorflow as tf
    v1 = tf.compat.v1

    with tf.Graph().as_default(), v1.variable_scope("s", reuse=v1.AUTO_REUSE):
        w = v1.get_variable("w", [2])
    print(w.name)
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

FAULT = Fault("TN402", "name-missing", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A variable that was to be reused and was never made under that name."""
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
        f"{name} was to be reused, but nothing was made under that name",
        raised.use,
        reason="reuse=True only finds what get_variable() has made before, in the same graph and under the same scopes. "
        "tf.Variable() takes no part in it.",
        fix=Fix("create it first without reuse, use reuse=tf.compat.v1.AUTO_REUSE, or mend the scope's name"),
    )


def _ours(raised: Raised) -> Finding:
    """A name of tenure's own stores and variables, whose error knows the places."""
    places = known(raised.exception, {"birth": "near", "use": "asked"})
    return FAULT.finding(
        raised.message.partition("\n")[0] or "nothing was made under this name",
        places if any(place.role == "use" for place in places) else [*places, *raised.use],
        reason="A name is found in the store that it was put into, under the same prefix, until somebody deletes it.",
        fix=Fix(
            'create it first; or ask with reuse="auto" for a variable, which makes it if there is none, and with '
            "store.get(name) for a tensor; or mend the name"
        ),
    )


def _eager(raised: Raised, name: str) -> Finding:
    return FAULT.finding(
        f"variable `{name}` was to be reused, but in a program that runs eagerly get_variable() keeps no names",
        raised.use,
        reason="Names of variables belong to a graph. Without one, each get_variable() makes a new variable, and reuse finds "
        "none.",
        fix=Fix(
            "hand the variable itself on (return it, keep it on an object), or build both inside one "
            "`with tf.Graph().as_default():`"
        ),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """get_variable() under reuse=True with a name that is not there."""
    for seen in found.of("name missing"):
        yield FAULT.finding(
            f"the variable {seen.data['name']!r} is to be reused, but nobody has created it",
            seen.places(),
            fix=Fix("create it first, or use reuse=tf.compat.v1.AUTO_REUSE"),
        )
