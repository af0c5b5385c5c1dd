"""A gradient is read after it was reset, or is never reset."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN215", "gradient-reset", __doc__)
