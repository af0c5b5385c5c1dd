"""A session is used after it was closed."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN201", "closed-session", __doc__)
