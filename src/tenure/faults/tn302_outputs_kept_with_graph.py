"""Outputs or activations are kept together with their autograd graph."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN302", "outputs-kept-with-graph", __doc__)
