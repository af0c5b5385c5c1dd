"""A small view keeps a large buffer alive."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN308", "view-pins-buffer", __doc__)
