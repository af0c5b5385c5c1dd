"""A tensor that autograd saved is changed in place before backward."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN209", "saved-tensor-changed", __doc__)
