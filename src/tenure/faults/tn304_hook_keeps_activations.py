"""A hook keeps what it sees, or is registered again and again."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN304", "hook-keeps-activations", __doc__)
