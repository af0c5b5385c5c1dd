"""After `del` another name still holds the tensor."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN315", "other-name-holds", __doc__)
