"""A reference cycle keeps tensors until the garbage collector runs, or for ever."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN305", "tensor-in-reference-cycle", __doc__)
