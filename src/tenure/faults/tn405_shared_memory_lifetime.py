"""Shared memory or its file descriptor ends with another process, or is kept open."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN405", "shared-memory-lifetime", __doc__)
