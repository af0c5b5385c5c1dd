"""TensorFlow's part. It takes any address by DLPack and aborts the process later if that is not aligned: so we look."""

from __future__ import annotations

from typing import Any

import numpy
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from tenure.errors import Unsupported
from tenure.frameworks.exchanging import base
from tenure.frameworks.exchanging.base import DTYPES, Host, Made, because, spelled
from tenure.frameworks.exchanging.numpy import Capsule, address, flat, numpy_dtype

_ALIGNMENT = 64
_FLOAT8 = range(10, 15)  # DLPack's codes, which TensorFlow does not know


class Tensorflow:
    """TensorFlow's eager tensors and variables."""

    def host(self, tensor: Any, *, lasting: bool) -> Host:
        """The tensor's own bytes where they are on the host; of a variable, those of its value now."""
        name = spelled(tensor.dtype.name, "TensorFlow")
        value = tensor
        if isinstance(tensor, BaseResourceVariable):
            if not tensor.is_initialized():
                raise Unsupported(f"the TensorFlow variable {tensor.name!r} is not initialised: it has no bytes yet")
            value = tensor.value()
        array = value._numpy()
        device = value.backing_device or ""
        why = "" if "CPU" in device else f"from {device.rpartition('device:')[2]} to the host"
        if not isinstance(array, numpy.ndarray):
            array = numpy.asarray(array)
            why = because(why, "TensorFlow gives a scalar as a number")
        return Host(flat(array), name, tuple(tensor.shape), "tensorflow", bool(why), why)

    def over(self, buffer: memoryview, dtype: str, shape: tuple[int, ...], owner: object, *, share: bool) -> Made:
        """A tensor on the buffer if that is aligned; TensorFlow writes only to bytes of its own."""
        kind = _dtype(dtype)
        why = ""
        if address(buffer) % _ALIGNMENT:
            why = f"TensorFlow needs bytes at a multiple of {_ALIGNMENT}"
        elif DTYPES[dtype][2] in _FLOAT8:
            why = f"TensorFlow takes no {base.common(dtype)} by DLPack"
        with tf.init_scope(), tf.device("CPU:0"):
            if why:
                array = numpy.frombuffer(buffer, numpy_dtype(dtype)).reshape(shape)
                return Made(tf.constant(array, kind), True, why)
            return Made(tf.experimental.dlpack.from_dlpack(Capsule(buffer, dtype, shape, owner).capsule))

    def empty(self, dtype: str, shape: tuple[int, ...]) -> Any:
        """A tensor without elements."""
        kind = _dtype(dtype)
        with tf.init_scope(), tf.device("CPU:0"):
            return tf.constant(numpy.empty(shape, numpy_dtype(dtype)), kind)

    def take(self, tensor: Any) -> Any:
        """By DLPack, on the device where it is."""
        with tf.init_scope():
            return tf.experimental.dlpack.from_dlpack(tensor.__dlpack__())


def _dtype(dtype: str) -> Any:
    try:
        return tf.as_dtype(base.common(dtype))
    except TypeError:
        raise Unsupported(f"TensorFlow has no {base.common(dtype)}") from None


EXCHANGER = Tensorflow()
