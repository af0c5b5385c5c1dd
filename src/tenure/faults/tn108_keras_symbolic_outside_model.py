"""A Keras symbolic tensor is used outside of the model that it describes.

What happens: ValueError "A KerasTensor cannot be used as input to a TensorFlow function", or "A KerasTensor is
symbolic"; NotImplementedError for what a layer kept on itself.

Why: keras.Input and layers called on it give placeholders with a shape and a type. fit() and predict() trace call() on
such tensors too: what a layer keeps on itself there has no value.

Wrong:

    import keras
    import tensorflow as tf

    x = keras.Input((3,))
    h = keras.layers.Dense(2)(x)
    print(tf.reduce_sum(h))

Right:

    import keras
    import numpy as np

    x = keras.Input((3,))
    h = keras.layers.Dense(2)(x)
    model = keras.Model(x, keras.ops.sum(h))
    print(model(np.ones((1, 3), "float32")))
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
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
    """A Keras placeholder used as data, or a tensor that a layer kept from one of Keras' traces."""
    if raised.says(_SAYS):
        return FAULT.finding(
            "a KerasTensor is used outside of the model that it describes",
            raised.use,
            reason="keras.Input() and layers called on it give placeholders for a shape and a type. They have no value, "
            "and only layers and keras.ops can take them, while a model is put together.",
            fix=Fix(
                "make the value an output of a model (keras.Model(inputs, value)) and call that model on data; inside the "
                "model use keras.ops or a Layer instead of a TensorFlow or NumPy function"
            ),
        )
    if not raised.says(r"Cannot convert a symbolic tf\.Tensor|'SymbolicTensor' object has no attribute 'numpy'"):
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
        f"`{escape.target}` was set while Keras traced the layer; it holds a symbolic tensor, not the last call's value",
        [escape.place, *raised.use],
        reason="fit, predict and functional models run call() once, on symbolic tensors, to build a graph. What the "
        "layer keeps on itself there is part of that graph and has no value.",
        fix=Fix(
            "return the value from call() as a second output of the model, and read it from what the model returns"
        ),
        certain=False,
    )


def in_source(found: Found) -> Iterator[Finding]:
    """A Keras symbol, or what a layer left on itself in `call`, is read."""
    for seen in found.of("keras symbolic"):
        yield FAULT.finding(
            "a symbolic Keras value is used outside its model",
            seen.places(),
            reason="What a layer computes while the model is built or traced has no values.",
            fix=Fix("make it an output of the model, and read what predict() returns"),
            evidence={"used by": seen.data["how"]},
        )
