"""A symbolic value is read as a number while its function is still being traced.

## What it means

TensorFlow raises AttributeError, 'SymbolicTensor' object has no attribute 'numpy', or NotImplementedError,
"Cannot convert a symbolic tf.Tensor". JAX raises TracerBoolConversionError, TracerArrayConversionError or
ConcretizationTypeError.

While a function is traced, its arguments are placeholders without values. `if`, float(), range() and NumPy
functions need the values immediately.

## Why it hurts

The function cannot be traced, so it never runs.

## Example

    import jax
    import jax.numpy as jnp

    @jax.jit
    def clip(x):
        if x.sum() > 1.0:
            return x / x.sum()
        return x

    clip(jnp.ones(3))

## Use instead

    import jax
    import jax.numpy as jnp

    @jax.jit
    def clip(x):
        return jnp.where(x.sum() > 1.0, x / x.sum(), x)

    print(clip(jnp.ones(3)))

## How to be sure

Run the program without tracing: `with jax.disable_jit():` in JAX, `tf.config.run_functions_eagerly(True)` in
TensorFlow. If the error disappears, this is the cause. (vmap still traces under disable_jit.)
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

FAULT = Fault("TN105", "symbolic-value-read", __doc__)

_JAX = (
    "TracerArrayConversionError", "TracerBoolConversionError", "TracerIntegerConversionError",
    "ConcretizationTypeError", "NonConcreteBooleanIndexError",
)  # fmt: skip

# A shape or the bounds of a slice: what XLA must know when it compiles.
_STATIC = r"Shapes must be 1D sequences of concrete values|Slice entries must be static integers|Array slice indices must have static start/stop/step"


def in_exception(raised: Raised) -> Finding | None:
    """A symbolic value is read as a number while its function is being traced."""
    if (
        raised.kind in _JAX
        or raised.says(r"passed to \w*Tracer\.__format__|unhashable type: '\w*Tracer'", "TypeError")
        or raised.says("Abstract tracer value encountered where concrete value is expected")
        or raised.says(_STATIC, "TypeError", "IndexError")
    ):
        return _found(raised, "jax", "a tracer") if raised.leak is None else None
    return _found(raised, "tensorflow", "a symbolic tensor") if raised.reads_symbol else None


def _found(raised: Raised, framework: str, what: str) -> Finding:
    jax = framework == "jax"
    return FAULT.finding(
        f"the code reads the value of {what} during tracing, but it has no value yet",
        raised.use,
        reason=(
            "Under jit, grad or vmap, arguments are placeholders without values. `if`, float(), int() and NumPy need the "
            "values immediately."
            if jax
            else "In a tf.function, in Dataset.map and in a graph, tensors are placeholders without values. "
            ".numpy(), `if` without AutoGraph, and NumPy functions need the values immediately."
        ),
        fix=Fix(
            _fix_in_jax(raised)
            if jax
            else "use a TensorFlow operation, wrap the Python function with `tf.py_function`, or read the value outside"
        ),
    )


def _fix_in_jax(raised: Raised) -> str:
    if raised.kind == "NonConcreteBooleanIndexError":
        return "keep the shape: `jnp.where(mask, x, 0)`, or `jnp.nonzero(mask, size=n)`; or index outside the traced function"
    if raised.says(_STATIC):
        return (
            "make the argument that decides the shape static (`static_argnums`, `static_argnames`), or use "
            "`lax.dynamic_slice` for a part of fixed size"
        )
    if raised.says(r"__format__"):
        return "print with `jax.debug.print`, or print the value that the traced function returns"
    if raised.says(r"unhashable type"):
        return "use a static argument or a name as the key: a traced value cannot be compared yet"
    return "use `jnp.where` or `lax.cond`, make the argument static (`static_argnums`), or read the value outside"


_REMEDY = {
    "jax": "use jnp functions (`jnp.where`, `lax.cond`), make the argument static, or read it outside the traced function",
    "tf": "use TensorFlow functions, or wrap the Python function with `tf.py_function`",
}


def in_source(found: Found) -> Iterator[Finding]:
    """A symbolic value is read as a number, a bool or an array."""
    for fact in found.of(facts.SymbolicRead):
        how, trace = fact.how, fact.trace
        what = "is the condition of a Python `if`" if how == "if" else f"is read as a number by {how}"
        yield FAULT.finding(
            f"a value that {trace} traces {what}",
            fact.places(),
            reason="While a function is traced, its values are not known yet.",
            fix=Fix(_REMEDY.get(fact.framework, "read it outside the traced function")),
            evidence={"traced by": trace},
        )
