"""A tensor is used after a scope or dispose ended it."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN205", "used-after-release", __doc__)
