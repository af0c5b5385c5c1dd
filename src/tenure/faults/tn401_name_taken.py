"""A variable is created under a name that already exists.

## What it means

TensorFlow raises ValueError, "Variable w already exists, disallowed" or "Trying to share variable w, but
specified shape". tenure's own variables raise NameTaken.

get_variable() creates each name once per graph. Code that runs twice must request the existing variable the
second time.

## Why it hurts

The program stops at the second creation.

## Example

    import tensorflow as tf
    v1 = tf.compat.v1

    def tower(x):
        return x * v1.get_variable("w", [2])

    with tf.Graph().as_default():
        tower(1.0)
        tower(2.0)

## Use instead

    import tensorflow as tf
    v1 = tf.compat.v1

    def tower(x):
        with v1.variable_scope("shared", reuse=v1.AUTO_REUSE):
            return x * v1.get_variable("w", [2])

    with tf.Graph().as_default():
        tower(1.0)
        tower(2.0)

## How to be sure

Print `[v.name for v in tf.compat.v1.global_variables()]` before the failing line: the list contains the name.
For tenure's variables, the message names the line that created it first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault, known
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN401", "name-taken", __doc__)


def in_exception(raised: Raised) -> Finding | None:
    """A variable name is already used, or used with another shape or dtype."""
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
        f"{name} already exists and cannot be created again",
        [*births, *raised.use],
        reason="get_variable() creates each name once per graph. Code that runs twice must request the existing variable the second "
        "time.",
        fix=Fix(
            "share it: use `variable_scope(…, reuse=tf.compat.v1.AUTO_REUSE)` around both calls; or use another scope for the "
            "second one; or start the second program on a new graph"
        ),
    )


def _ours(raised: Raised) -> Finding:
    """Explain the error of tenure's own variables, which carries the places."""
    places = known(raised.exception, {"birth": "first", "use": "again"})
    return FAULT.finding(
        raised.message.partition("\n")[0] or "this name already exists and cannot be created again",
        places or raised.use,
        reason="A name can be created once in a store. Code that runs twice must request the existing variable the second time.",
        fix=Fix(
            'share it: `tenure.variable_scope(…, reuse=True)`, or `reuse="auto"` to create it if it does not exist; or use '
            "another name or scope for the second one"
        ),
        at=places[-1] if places else None,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """get_variable() is called with a name that already exists."""
    for fact in found.of(facts.NameTaken):
        yield FAULT.finding(
            f"the variable {fact.name!r} already exists in this graph",
            fact.places(),
            fix=Fix("share it: `variable_scope(..., reuse=tf.compat.v1.AUTO_REUSE)`; or use another name"),
            labels={"use": "created again here"},
        )
