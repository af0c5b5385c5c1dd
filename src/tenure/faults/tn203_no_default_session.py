"""A graph tensor is evaluated where no session is the default."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN203", "no-default-session", __doc__)
