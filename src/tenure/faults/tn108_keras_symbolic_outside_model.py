"""A Keras symbolic tensor is used outside the model that it describes.

## What it means

Keras raises ValueError, "A KerasTensor cannot be used as input to a TensorFlow function" or "A KerasTensor is
symbolic". A tensor that a layer stored as an attribute causes NotImplementedError.

keras.Input and layers called on it return placeholders with a shape and a dtype. fit() and predict() also
trace call() with symbolic tensors: a tensor that a layer stores as an attribute there has no value.

## Why it hurts

The placeholder never gets a value, so NumPy and TensorFlow functions cannot use it.

## Example

    import keras
    import tensorflow as tf

    x = keras.Input((3,))
    h = keras.layers.Dense(2)(x)
    print(tf.reduce_sum(h))

## Use instead

    import keras
    import numpy as np

    x = keras.Input((3,))
    h = keras.layers.Dense(2)(x)
    model = keras.Model(x, keras.ops.sum(h))
    print(model(np.ones((1, 3), "float32")))

## How to be sure

Call `keras.utils.is_keras_tensor(h)`: it returns True for a placeholder. For a tensor that a layer stored,
`tf.is_symbolic_tensor(layer.last)` returns True.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN108", "keras-symbolic-outside-model", __doc__)

_SAYS = (
    r"A KerasTensor (?:cannot be used as input to a TensorFlow function|is symbolic)"
    r"|KerasTensor.*(?:cannot be (?:used|converted)|symbolic)|[Cc]annot convert .*KerasTensor"
    r"|Graph disconnected: cannot obtain value for tensor"
    r"|Cannot convert a symbolic Keras (?:input/output|tensor)"
    r"|Attempting to capture an? KerasTensor|object of type 'KerasTensor' has no len"
    r"|'KerasTensor' object has no attribute|is not connected to `inputs`"
    r"|Iterating over a symbolic KerasTensor|symbolic KerasTensor cannot be used as a boolean"
)


def in_exception(raised: Raised) -> Finding | None:
    """A Keras placeholder is used as data, or a layer stored a tensor during one of Keras' traces."""
    if raised.says(_SAYS):
        return FAULT.finding(
            "a KerasTensor is used outside the model that it describes",
            raised.use,
            reason="keras.Input() and layers called on it return placeholders with a shape and a dtype, but without a value. "
            "Only layers and keras.ops accept them, while a model is built.",
            fix=Fix(
                "make the value an output of a model, `keras.Model(inputs, value)`, and call that model on data; inside the "
                "model use keras.ops or a Layer instead of a TensorFlow or NumPy function"
            ),
        )
    if not raised.says(r"Cannot convert a symbolic tf\.Tensor|'SymbolicTensor' object has no attribute 'numpy'"):
        return None
    if raised.in_keras_step:  # read where it is made, not kept for later
        return None
    escape = raised.escape()
    owner = escape.source.class_of(escape.function) if escape is not None else None
    if raised.in_trace or escape is None or owner is None:
        return None
    if not any(
        word in ast.unparse(base) for base in owner.bases for word in ("Layer", "Model", "Callback", "Loss", "Metric")
    ):
        return None
    return FAULT.finding(
        f"`{escape.target}` is a symbolic tensor: it was set while Keras traced the layer",
        [escape.place, *raised.use],
        reason="fit, predict and functional models run call() once, on symbolic tensors, to build a graph. A tensor that the "
        "layer stores as an attribute there is part of that graph and has no value.",
        fix=Fix("return the value from call() as a second output of the model, and read it from the model's result"),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A Keras placeholder, or a tensor that a layer stored as an attribute in `call`, is read."""
    for fact in found.of(facts.KerasSymbolic):
        yield FAULT.finding(
            "a symbolic Keras tensor is used outside its model",
            fact.places(),
            reason="Tensors that a layer computes while the model is built or traced have no values.",
            fix=Fix("make it an output of the model, and read the result of predict()"),
            evidence={"used by": fact.how},
        )
