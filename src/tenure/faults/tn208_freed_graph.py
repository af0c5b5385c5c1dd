"""backward runs through an autograd graph that was already freed."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN208", "freed-graph", __doc__)
