"""Several threads or processes write one tensor without agreement."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN403", "unsynchronised-writers", __doc__)
