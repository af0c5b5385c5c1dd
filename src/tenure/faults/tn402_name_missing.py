"""There is no variable of that name to share."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN402", "name-missing", __doc__)
