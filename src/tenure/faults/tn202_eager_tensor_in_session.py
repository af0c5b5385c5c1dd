"""An eager tensor is fetched from a graph session, whose graph does not know it."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN202", "eager-tensor-in-session", __doc__)
