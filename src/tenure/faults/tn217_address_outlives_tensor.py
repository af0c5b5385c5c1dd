"""An id, an address or a weak reference is taken for a tensor that may be gone."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN217", "address-outlives-tensor", __doc__)
