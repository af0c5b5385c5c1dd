"""A tracer is kept by a cache, a default or a generator, and given out in a later trace."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN106", "tracer-in-cache", __doc__)
