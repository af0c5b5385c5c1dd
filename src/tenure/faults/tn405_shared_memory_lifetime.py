"""Shared memory or its file descriptor disappears with another process, or is kept open.

## What it means

Python raises FileNotFoundError for /psm_..., or "unable to open shared memory object", or
ConnectionRefusedError while a tensor is received.

A tensor is sent to another process as a name or a file descriptor of shared memory. Its creator can remove it
before the receiver has opened it.

## Why it hurts

The receiver cannot read the tensor. A program that keeps many received tensors runs out of file descriptors.

## Example

    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=64)
    name = memory.name
    memory.close()
    memory.unlink()
    other = shared_memory.SharedMemory(name=name)

## Use instead

    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=64)
    other = shared_memory.SharedMemory(name=memory.name)
    other.close()
    memory.close()
    memory.unlink()

## How to be sure

On Linux, `Path("/dev/shm", name.lstrip("/")).exists()` is False once the memory is removed.
`len(os.listdir("/proc/self/fd"))` grows if received tensors are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.check import facts
from tenure.check.fact import Found
from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN405", "shared-memory-lifetime", __doc__)

_SAYS = (
    r"unable to open shared memory object|could not unlink the shared memory|shm_open|torch_\d+_\d+.*No such file"
    r"|No such file or directory: '?/?(?:psm_|wnsm_|torch_)|Cannot (?:mmap|map) shared|received 0 items of ancdata"
    r"|producer process has been terminated|cudaIpc(?:OpenMemHandle|.*invalid)|file descriptor.*(?:shared|ancdata)"
)


def in_exception(raised: Raised) -> Finding | None:
    """Shared memory was unlinked by its creator, or disappeared with the process that created it."""
    rebuilt = any("multiprocessing/reductions.py" in frame.file.replace("\\", "/") for frame in raised.frames)
    lost = (
        raised.kind in ("ConnectionRefusedError", "ConnectionResetError", "EOFError", "FileNotFoundError") and rebuilt
    )
    if not lost and not raised.says(_SAYS):
        return None
    ended = raised.calls("end", "unlink", "terminate", "kill")
    return FAULT.finding(
        "the shared memory is gone: the process that created it exited or unlinked it",
        [*ended[:1], *raised.use],
        reason="A tensor is sent to another process as a name or a file descriptor of shared memory. The sender must not exit "
        "or unlink it before the receiver has opened it.",
        fix=Fix(
            "keep the sending process alive until the tensor is received (an Event, or join() after get()), or send a copy"
        ),
        certain=False,
        labels={"end": "removed here"},
    )


def in_run(leak: Leak) -> Finding | None:
    """Tensors from another process accumulate, each with its block of shared memory and its open file."""
    if leak.what != "shared":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{growth.name(leak)} keeps {leak.count:,} tensors of other processes, each with an open file",
        Fix("store a copy outside shared memory, `x.clone()` or `int(x)`, and drop the batch"),
        "A tensor from a DataLoader worker is stored in shared memory, which stays open until its last handle is released.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Tensors from DataLoader workers are collected."""
    for fact in found.of(facts.WorkerTensorKept):
        yield FAULT.finding(
            "this stores tensors of worker processes: each keeps shared memory and a file descriptor open",
            fact.places(),
            fix=Fix("store a number (`.item()`) or a copy (`.clone()`)"),
        )
    for ended in found.of(facts.SenderEnded):
        yield FAULT.finding(
            "this receives tensors from processes that have exited",
            ended.places(),
            reason="A tensor is sent as a file descriptor of shared memory, which only the running sender can hand over.",
            fix=Fix("receive first, and call join() afterwards; or send NumPy arrays"),
            labels={"end": "waits for the process to exit"},
        )
