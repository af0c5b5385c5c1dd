"""An array is used after it was donated to a compiled call."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN207", "donated-buffer", __doc__)
