"""An array or a variable is used after it was deleted.

## What it means

JAX raises RuntimeError, "Array has been deleted". TensorFlow raises AttributeError on None inside a
tf.function method, or reports "variables which have been deleted".

delete() frees an array for all code that references it. jnp.asarray, x[:], dict(tree) and astype to the same
dtype do not copy. A tf.function has only a weak reference to its object, so a method can outlive its object.

## Why it hurts

The program stops at the next use of any name that shares the array, also of names that were never deleted
themselves.

## Example

    import jax.numpy as jnp

    weights = jnp.ones(3)
    best = jnp.asarray(weights)
    weights.delete()
    print(best + 1)

## Use instead

    import jax.numpy as jnp

    weights = jnp.ones(3)
    best = jnp.copy(weights)
    weights.delete()
    print(best + 1)

## How to be sure

In JAX, call `best.is_deleted()` before the failing line: it returns True. In TensorFlow, keep the object in a
variable: if the error disappears, the object had been freed.
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

FAULT = Fault("TN206", "deleted-array", __doc__)

_JAX = (
    r"Array has (?:already )?been deleted|(?:Buffer|Array|buffer) (?:has been )?(?:deleted or donated|donated or deleted)"
    r"|called on deleted (?:or donated )?(?:buffer|array)|DeviceArray has been deleted|Bundle is deleted"
    r"|has been (?:donated or deleted|deleted or donated)"
)
_TF = (
    r"referencing variables which have been deleted|has already been garbage collected and cannot be called|[Tt]his could mean that the variable has been deleted"
    r"|Resource .* does not exist|weakly[- ]referenced .*[Vv]ariable"
)


def in_exception(raised: Raised) -> Finding | None:
    """An array was deleted (or donated, where the two look alike), or a variable or object is gone."""
    if raised.says(_JAX):
        return _array(raised)
    lost = raised.says(r"'NoneType' object has no attribute '(?P<name>\w+)'", "AttributeError")
    if lost and raised.in_trace and raised.here and f"self.{lost['name']}" in raised.place("use", raised.here).text:
        return _owner(raised)
    if raised.says(_TF) and not raised.graphs.is_graph_mode:
        return _variable(raised)
    return None


def _array(raised: Raised) -> Finding:
    deletions = raised.endings.deletions
    via = raised.endings.callers_of(deletions[0]) if deletions else []
    return FAULT.finding(
        f"{raised.endings.what} is used after it was deleted",
        [*raised.endings.births, *deletions[:1], *via[:1], *raised.use],
        reason="delete() frees the array for all code that references it. jnp.asarray, x[:], astype to the same dtype, dict(…) and "
        "an identity tree.map do not copy: they return the array that is deleted.",
        fix=Fix("call delete() after the last use, or first copy what you still need: `jnp.copy(x)`"),
        certain=bool(deletions),
        labels={"end": "deleted here"},
    )


def _owner(raised: Raised) -> Finding:
    made = raised.endings.lost_owner()
    return FAULT.finding(
        "this tf.function method is called after its object was garbage-collected: `self` is None",
        [*made, *raised.use],
        reason="A tf.function has only a weak reference to the object whose method it is. No other reference kept the object, so "
        "it was freed together with its variables.",
        fix=Fix("keep the object in a variable as long as its method is used: `model = Model(); step = model.step`"),
        certain=bool(made),
        labels={"escape": "method taken here"},
    )


def _variable(raised: Raised) -> Finding:
    return FAULT.finding(
        "a function uses a tf.Variable that was already freed",
        raised.use,
        reason="A variable is freed with the last reference to it. A concrete function, or a function loaded from a SavedModel, may "
        "use it without keeping it alive.",
        fix=Fix(
            "keep the object that owns the variables (the loaded model or module) in a variable while its functions are used"
        ),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """An array is used after delete(); a method outlives its object."""
    for used_after_end in found.of(facts.UsedAfterEnd):
        if used_after_end.cause == "deleted":
            yield FAULT.finding(
                f"this array was already deleted in line {used_after_end.line('end')}",
                used_after_end.places(),
                fix=Fix("call delete() after the last use, or first copy what you still need: `jnp.copy(x)`"),
                labels={"end": "deleted here"},
            )
    for function_of_dead_object in found.of(facts.FunctionOfDeadObject):
        yield FAULT.finding(
            "this tf.function method is called after its object was garbage-collected",
            function_of_dead_object.places(),
            reason="A tf.function has only a weak reference to the object whose method it is. No other reference keeps the object "
            "and its variables alive.",
            fix=Fix(
                "keep the object in a variable as long as its method is used: `model = Model(); step = model.step`"
            ),
            labels={"escape": "method taken here"},
        )
