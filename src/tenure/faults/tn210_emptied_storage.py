"""A tensor is used after its storage was emptied under it."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN210", "emptied-storage", __doc__)
