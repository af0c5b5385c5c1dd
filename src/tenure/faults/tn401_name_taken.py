"""A variable's name is taken already.

What happens: ValueError "Variable w already exists, disallowed", or "Trying to share variable w, but specified shape",
or tenure's own NameTaken.

Why: get_variable() makes a variable by name, once for each graph. The second run of the same code must say that it
wants the first one's.

Wrong:

    import tensorflow as tf
    v1 = tf.compat.v1

    def tower(x):
        return x * v1.get_variable("w", [2])

    with tf.Graph().as_default():
        tower(1.0)
        tower(2.0)

Right:

    import tensorflow as tf
    v1 = tf.compat.v1

    def tower(x):
        with v1.variable_scope("shared", reuse=v1.AUTO_REUSE):
            return x * v1.get_variable("w", [2])

    with tf.Graph().as_default():
        tower(1.0)
        tower(2.0)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault, known
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN401", "name-taken", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A variable name that is taken already, or taken by another shape or type."""
    said = raised.says(r"Variable (?P<name>\S+) already exists, disallowed") or raised.says(
        r"Trying to share variable (?P<name>\S+), but specified (?:shape|dtype)"
    )
    if not said and raised.kind != "NameTaken":
        return None
    if not said:
        return _ours(raised)
    name = f"variable `{said['name']}`"
    first = re.search(
        r"Originally defined at:\s*\n(?:.*\n)*?\s*File \"(?P<file>[^\"]+)\", line (?P<line>\d+)", raised.message
    )
    births = [raised.site("birth", first["file"], int(first["line"]))] if first else []
    return FAULT.finding(
        f"{name} exists already, and was to be created again",
        [*births, *raised.use],
        reason="get_variable() creates a variable by name, once for each graph. Where the same code runs twice, the second run must "
        "say that it wants the first one's variable.",
        fix=Fix(
            "share it: variable_scope(…, reuse=tf.compat.v1.AUTO_REUSE) around both calls; or give the second one another scope; or "
            "start the second program on a new graph"
        ),
    )


def _ours(raised: Raised) -> Finding:
    """tenure's own variable, whose error knows the places."""
    places = known(raised.exception, {"birth": "first", "use": "again"})
    return FAULT.finding(
        raised.message.partition("\n")[0] or "this name exists already, and was to be created again",
        places or raised.use,
        reason="A name is created once in a store. Where the same code runs twice, the second run must say that it wants the "
        "first one's variable.",
        fix=Fix(
            'share it: tenure.variable_scope(…, reuse=True), or reuse="auto" to make it if there is none; or give the second '
            "one another name or scope"
        ),
        at=places[-1] if places else None,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """get_variable() with a name that is taken."""
    for seen in found.of("name taken"):
        yield FAULT.finding(
            f"the variable {seen.data['name']!r} exists already in this graph",
            seen.places(),
            fix=Fix("share it: variable_scope(..., reuse=tf.compat.v1.AUTO_REUSE); or give it another name"),
        )
