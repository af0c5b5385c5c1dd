"""A value is used after what it stands for was deleted."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN206", "deleted-array", __doc__)
