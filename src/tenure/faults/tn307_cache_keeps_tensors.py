"""A cache keeps tensors and never lets go of any."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN307", "cache-keeps-tensors", __doc__)
