"""A variable is created inside a traced function, again at each trace."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN107", "variable-in-traced-function", __doc__)
