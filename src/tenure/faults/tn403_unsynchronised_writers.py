"""Several threads or processes write one tensor without agreement.

What happens: Nothing fails: updates are lost, or a reader sees half of one.

Why: x += y on a shared tensor reads, adds and writes. Two writers that do it at once lose one of the two, and torch
releases the interpreter lock in between.

Wrong:

    import torch
    from concurrent.futures import ThreadPoolExecutor

    total = torch.zeros(100_000)

    def add(_):
        total.add_(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(200)))
    print(total.min(), "of 200")

Right:

    import threading
    import torch
    from concurrent.futures import ThreadPoolExecutor

    total, lock = torch.zeros(100_000), threading.Lock()

    def add(_):
        with lock:
            total.add_(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(200)))
    assert total.min() == 200
"""

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
