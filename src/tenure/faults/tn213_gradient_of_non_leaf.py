"""The gradient of a tensor that is no leaf is read, and was never kept."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN213", "gradient-of-non-leaf", __doc__)
