"""An optimizer keeps parameters that were replaced, or misses the new ones."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN313", "optimizer-parameters-replaced", __doc__)
