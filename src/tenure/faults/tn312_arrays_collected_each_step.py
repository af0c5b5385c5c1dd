"""Device arrays are collected in each step and never let go."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN312", "arrays-collected-each-step", __doc__)
