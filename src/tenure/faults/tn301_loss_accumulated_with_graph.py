"""A loss is added up together with its autograd graph."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN301", "loss-accumulated-with-graph", __doc__)
