"""A value made inside a traced function (tf.function, jit, grad, vmap) is used outside of it."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN101", "escapes-traced-function", __doc__)
