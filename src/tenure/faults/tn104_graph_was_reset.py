"""A tensor is used after the graph that it belongs to was reset."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN104", "graph-was-reset", __doc__)
