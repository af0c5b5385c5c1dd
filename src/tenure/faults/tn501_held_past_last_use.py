"""A tensor is held past its last use, at the peak."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN501", "held-past-last-use", __doc__, severity="advice")
