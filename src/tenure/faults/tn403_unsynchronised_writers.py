"""Several threads or processes write one tensor without agreement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.check.facts import Found
    from tenure.findings import Finding

FAULT = Fault("TN403", "unsynchronised-writers", __doc__)


def in_source(found: Found) -> Iterator[Finding]:
    """Threads write to one tensor."""
    for seen in found.of("unsynchronised writers"):
        yield FAULT.finding(
            "several threads change this tensor in place without a lock",
            seen.places(),
            fix=Fix("hold a lock while writing, or let each thread write to a tensor of its own"),
        )
