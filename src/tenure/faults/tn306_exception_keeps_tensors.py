"""A kept exception keeps the frames it passed, and their tensors."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN306", "exception-keeps-tensors", __doc__)
