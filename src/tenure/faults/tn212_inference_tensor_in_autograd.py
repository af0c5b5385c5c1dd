"""A tensor made in inference mode is used where autograd records."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN212", "inference-tensor-in-autograd", __doc__)
