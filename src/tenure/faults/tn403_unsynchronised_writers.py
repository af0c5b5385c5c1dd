"""Several threads or processes write to one tensor without a lock.

## What it means

Nothing fails: updates are lost, or a reader sees half of an update.

x += y on a shared tensor reads, adds and writes. If two writers do this at the same time, one update is lost.
torch releases the interpreter lock during the operation, so threads do run at the same time.

## Why it hurts

The result is wrong, and different in each run.

## Example

    import torch
    from concurrent.futures import ThreadPoolExecutor

    total = torch.zeros(100_000)

    def add(_):
        total.add_(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(200)))
    print(total.min(), "of 200")

## Use instead

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

## How to be sure

Run it with one thread, `ThreadPoolExecutor(1)`, and compare the results. A difference that remains after
several runs comes from lost updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.findings import Finding

FAULT = Fault("TN403", "unsynchronised-writers", __doc__)


def in_source(found: Found) -> Iterator[Finding]:
    """Threads write to one tensor."""
    for fact in found.of(facts.UnsynchronisedWriters):
        yield FAULT.finding(
            "several threads change this tensor in place without a lock",
            fact.places(),
            reason="An in-place update reads, adds and writes. Two threads that do this at the same time lose an update.",
            fix=Fix("use a lock around each write, or give each thread its own tensor"),
            labels={"use": "written here", "holder": "thread started here"},
        )
