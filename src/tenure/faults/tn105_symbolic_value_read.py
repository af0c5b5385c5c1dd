"""A symbolic value, which stands for a number to come, is read as a number now."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN105", "symbolic-value-read", __doc__)
