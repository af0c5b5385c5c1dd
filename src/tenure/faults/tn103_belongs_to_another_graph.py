"""A tensor is used in a graph that is not its own."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN103", "belongs-to-another-graph", __doc__)
