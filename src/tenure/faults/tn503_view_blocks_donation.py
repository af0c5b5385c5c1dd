"""A view on the host keeps a donated buffer from being reused."""

from __future__ import annotations

from tenure.faults.base import Fault

FAULT = Fault("TN503", "view-blocks-donation", __doc__, severity="advice")
