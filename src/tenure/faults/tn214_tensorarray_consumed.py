"""A TensorArray is used after a write or read consumed it, or the result of a write is dropped."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN214", "tensorarray-consumed", __doc__)
