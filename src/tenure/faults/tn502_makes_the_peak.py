"""What the most memory went into."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN502", "makes-the-peak", __doc__, severity="advice")
