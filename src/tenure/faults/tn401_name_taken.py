"""A variable's name is taken already."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN401", "name-taken", __doc__)
