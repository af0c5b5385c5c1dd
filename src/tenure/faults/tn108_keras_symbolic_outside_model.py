"""A Keras symbolic tensor is used outside of the model that it describes."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN108", "keras-symbolic-outside-model", __doc__)
