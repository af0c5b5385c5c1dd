"""Grad mode was set in one thread and relied on in another."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN216", "grad-mode-other-thread", __doc__)
