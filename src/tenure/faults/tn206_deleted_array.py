"""A value is used after what it stands for was deleted.

What happens: JAX: RuntimeError "Array has been deleted". TensorFlow: AttributeError on None inside a tf.function
method, or "variables which have been deleted".

Why: delete() ends an array for all who have it, and jnp.asarray, x[:], dict(tree) or astype to the same type give no
copy. A tf.function keeps its object by a weak reference only, so that a method can outlive its object.

Wrong:

    import jax.numpy as jnp

    weights = jnp.ones(3)
    best = jnp.asarray(weights)
    weights.delete()
    print(best + 1)

Right:

    import jax.numpy as jnp

    weights = jnp.ones(3)
    best = jnp.copy(weights)
    weights.delete()
    print(best + 1)
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
    """An array after delete() (or donation, where that cannot be told apart), a variable or object that is gone."""
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
        reason="delete() ends an array for all who have it. jnp.asarray, x[:], astype to the same type, dict(…) and an identity "
        "tree.map give no copy: they share the array that is deleted.",
        fix=Fix("delete it behind its last use, or keep a real copy of what is still needed (jnp.copy(x)) before"),
        certain=bool(deletions),
    )


def _owner(raised: Raised) -> Finding:
    made = raised.endings.lost_owner()
    return FAULT.finding(
        "a tf.function method runs after the object it belongs to is gone: `self` is None",
        [*made, *raised.use],
        reason="A tf.function keeps only a weak reference to the object it is a method of. Nobody else kept the object, so it "
        "ended, and its variables with it.",
        fix=Fix("keep the object in a name as long as its method is used (model = Model(); step = model.step)"),
        certain=bool(made),
    )


def _variable(raised: Raised) -> Finding:
    return FAULT.finding(
        "a function uses a tf.Variable that is gone",
        raised.use,
        reason="A variable ends with the last reference to it; a function loaded from a SavedModel or a concrete function may "
        "refer to it without keeping it.",
        fix=Fix(
            "keep the object that owns the variables (the loaded model, the module) in a name while its functions are used"
        ),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """An array is used after delete(); a method outlives its object."""
    for seen in found.of("used after end"):
        if seen.data["cause"] == "deleted":
            yield FAULT.finding(
                f"this array was deleted in line {seen.line('end')}",
                seen.places(),
                fix=Fix("delete it after its last use, or keep a copy"),
            )
    for seen in found.of("function of dead object"):
        yield FAULT.finding(
            "the object whose tf.function this is, is gone when the function is called",
            seen.places(),
            reason="A tf.function that is a method refers to its object weakly. Nothing else keeps it, nor its variables.",
            fix=Fix("keep the object as long as its method is used"),
        )
