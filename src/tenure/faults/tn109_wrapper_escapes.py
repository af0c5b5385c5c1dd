"""A functorch or fake tensor outlives the transformation that wrapped it."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN109", "wrapper-escapes", __doc__)
