"""Two names share one buffer: a change through one changes the other."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN404", "alias-changes", __doc__)
