"""A symbolic value, which stands for a number to come, is read as a number now.

What happens: AttributeError 'SymbolicTensor' object has no attribute 'numpy', NotImplementedError "Cannot convert a
symbolic tf.Tensor", JAX's TracerBoolConversionError, TracerArrayConversionError, ConcretizationTypeError.

Why: While a function is traced its arguments stand for values that come later. `if`, float(), range() and NumPy need
the value now.

Wrong:

    import jax
    import jax.numpy as jnp

    @jax.jit
    def clip(x):
        if x.sum() > 1.0:
            return x / x.sum()
        return x

    clip(jnp.ones(3))

Right:

    import jax
    import jax.numpy as jnp

    @jax.jit
    def clip(x):
        return jnp.where(x.sum() > 1.0, x / x.sum(), x)

    print(clip(jnp.ones(3)))
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

FAULT = Fault("TN105", "symbolic-value-read", __doc__)

_JAX = (
    "TracerArrayConversionError", "TracerBoolConversionError", "TracerIntegerConversionError",
    "ConcretizationTypeError", "NonConcreteBooleanIndexError",
)  # fmt: skip


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value whose number is asked for while its function is still being traced."""
    if (
        raised.kind in _JAX
        or raised.says(r"passed to \w*Tracer\.__format__", "TypeError")
        or raised.says("Abstract tracer value encountered where concrete value is expected")
    ):
        return _found(raised, "jax", "a tracer") if raised.leak is None else None
    return _found(raised, "tensorflow", "a symbolic tensor") if raised.reads_symbol else None


def _found(raised: Raised, framework: str, what: str) -> Finding:
    jax = framework == "jax"
    return FAULT.finding(
        f"the value of {what} is asked for while its function is being traced: it has none yet",
        raised.use,
        reason=(
            "Under jit, grad or vmap the arguments stand for values that come later; `if`, float(), int() and numpy need "
            "them now."
            if jax
            else "In a tf.function, in Dataset.map and in a graph, tensors stand for values that come later; "
            ".numpy(), `if` without AutoGraph, and NumPy functions need them now."
        ),
        fix=Fix(
            "use jnp.where or lax.cond for the choice, make the argument static (static_argnums), or read the value outside"
            if jax
            else "use TensorFlow's own operation, wrap the Python function with tf.py_function, or read the value outside"
        ),
    )


_REMEDY = {
    "jax": "use jnp functions (jnp.where, lax.cond), make the argument static, or read it outside the traced function",
    "tf": "use tf functions, or wrap the Python function with tf.py_function",
}


def in_source(found: Found) -> Iterator[Finding]:
    """A symbol is read as a number, a bool or an array."""
    for seen in found.of("symbolic read"):
        how, trace = seen.data["how"], seen.data["trace"]
        what = "decides a Python `if`" if how == "if" else f"is read as a number by {how}"
        yield FAULT.finding(
            f"a value that {trace} traces {what}",
            seen.places(),
            reason="While a function is traced its values are not known: there is no number to read.",
            fix=Fix(_REMEDY.get(seen.data["framework"], "read it outside the traced function")),
            evidence={"traced by": trace},
        )
