"""A closure, a generator or a waiting thread keeps tensors."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN309", "closure-keeps-tensors", __doc__)
