"""A value made inside a control-flow body (cond, while_loop, scan, map_fn, Dataset.map) is used outside of it."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN102", "escapes-control-flow", __doc__)
