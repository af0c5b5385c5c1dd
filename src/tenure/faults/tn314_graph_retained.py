"""retain_graph or create_graph keeps the autograd graph."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN314", "graph-retained", __doc__)
