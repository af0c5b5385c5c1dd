"""Recurrent state carries its autograd graph from one step to the next."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN303", "state-carries-graph", __doc__)
