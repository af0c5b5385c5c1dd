"""A variable or iterator is read in a session that did not initialise it."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN204", "not-initialized-in-session", __doc__)
