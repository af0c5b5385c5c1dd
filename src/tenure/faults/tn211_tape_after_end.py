"""A gradient tape is used, or kept, past its end."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN211", "tape-after-end", __doc__)
