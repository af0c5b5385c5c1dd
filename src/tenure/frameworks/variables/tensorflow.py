"""TensorFlow's part: a `tf.Variable`, with its value or, in a graph that is being built, with one in each session."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from tenure.frameworks.variables import base
from tenure.frameworks.variables.base import Wanted, glorot


class Tensorflow:
    """Variables."""

    name = "tensorflow"

    def outside(self) -> AbstractContextManager[Any]:
        """A variable that is made while a tf.function is traced belongs to no trace."""
        scope: AbstractContextManager[Any] = tf.init_scope()
        return scope

    def dtype(self, dtype: Any) -> str:
        """The common name."""
        return str(tf.as_dtype(getattr(dtype, "name", dtype)).name)

    def native(self, dtype: str | None) -> tf.DType:
        """TensorFlow's own."""
        return tf.as_dtype(dtype or "float32")

    def is_float(self, dtype: str | None) -> bool:
        """Also complex numbers."""
        kind = self.native(dtype)
        return bool(kind.is_floating or kind.is_complex)

    def named(self, init: str, shape: tuple[int, ...], dtype: str | None, name: str) -> Any:
        """From TensorFlow's own generator."""
        kind = self.native(dtype)
        if init == "zeros":
            return tf.zeros(shape, kind)
        if init == "ones":
            return tf.ones(shape, kind)
        if init == "normal":
            return tf.random.normal(shape, dtype=kind)
        limit = glorot(shape)
        return tf.random.uniform(shape, -limit, limit, kind)

    def full(self, shape: tuple[int, ...], number: complex, dtype: str | None) -> Any:
        """One number."""
        return tf.fill(shape, tf.constant(number, self.native(dtype)))

    def called(self, init: Callable[..., Any], wanted: Wanted) -> Any:
        """The initializers of TensorFlow and Keras take a shape and a dtype."""
        return base.call(init, wanted, self.native(wanted.dtype))

    def own(self, value: Any, dtype: str | None) -> Any:
        """The value; a variable copies it when it is made."""
        tensor = tf.convert_to_tensor(value)
        return tensor if dtype is None or tensor.dtype.name == dtype else tf.cast(tensor, dtype)

    def variable(self, value: Any, name: str, *, trainable: bool) -> Any:
        """A variable of this very name, in whatever name scope the user is."""
        if isinstance(value, tf.Variable):
            return value
        with tf.compat.v1.name_scope(""):
            return tf.Variable(value, trainable=trainable, name=name)


def graph() -> Any:
    """The graph that is being built, not counting those of tf.functions; None if TensorFlow runs eagerly."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else ops.get_default_graph()


MAKER = Tensorflow()
