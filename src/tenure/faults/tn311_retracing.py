"""A function is traced and compiled again in each turn, and every trace is kept."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN311", "retracing", __doc__)
