"""Operations are added to a graph in each turn of a loop."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN310", "graph-grows-in-loop", __doc__)
