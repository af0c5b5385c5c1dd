"""Shared memory or its file descriptor ends with another process, or is kept open.

What happens: FileNotFoundError for /psm_…, "unable to open shared memory object", ConnectionRefusedError while a tensor
is received.

Why: A tensor sent to another process is a name, or a file descriptor, of shared memory. Whoever made it can end it
before the receiver has opened it.

Wrong:

    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=64)
    name = memory.name
    memory.close()
    memory.unlink()
    other = shared_memory.SharedMemory(name=name)

Right:

    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=64)
    other = shared_memory.SharedMemory(name=memory.name)
    other.close()
    memory.close()
    memory.unlink()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.faults import growth
from tenure.faults.base import Fault
from tenure.findings import Fix

if TYPE_CHECKING:
    from tenure.analysis.leaks.model import Leak
    from tenure.check.facts import Found
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

FAULT = Fault("TN405", "shared-memory-lifetime", __doc__)

_SAYS = (
    r"unable to open shared memory object|could not unlink the shared memory|shm_open|torch_\d+_\d+.*No such file"
    r"|No such file or directory: '?/?(?:psm_|wnsm_|torch_)|Cannot (?:mmap|map) shared|received 0 items of ancdata"
    r"|producer process has been terminated|cudaIpc(?:OpenMemHandle|.*invalid)|file descriptor.*(?:shared|ancdata)"
)


def in_exception(raised: Raised) -> Finding | None:
    """Shared memory that its maker has unlinked, or that ended with the process that made it."""
    rebuilt = any("multiprocessing/reductions.py" in frame.file.replace("\\", "/") for frame in raised.frames)
    lost = (
        raised.kind in ("ConnectionRefusedError", "ConnectionResetError", "EOFError", "FileNotFoundError") and rebuilt
    )
    if not lost and not raised.says(_SAYS):
        return None
    ended = raised.calls("end", "unlink", "terminate", "kill")
    return FAULT.finding(
        "the shared memory behind this tensor is gone: the process that made it has ended or unlinked it",
        [*ended[:1], *raised.use],
        reason="A tensor sent to another process is a name or a file descriptor of shared memory. The sender must live until the "
        "receiver has opened it.",
        fix=Fix(
            "keep the sending process alive until the tensor was received (an Event, or join() behind get()), or send a copy"
        ),
        certain=False,
    )


def in_run(leak: Leak) -> Finding | None:
    """Tensors that came from another process pile up, each with its piece of shared memory and its file."""
    if leak.what != "shared":
        return None
    return growth.told(
        FAULT,
        leak,
        f"{leak.count:,} tensors of other processes are kept in {growth.name(leak)}, each with an open file",
        Fix("copy what is kept out of shared memory, with x.clone() or int(x), and let the batch go"),
        "A tensor from a DataLoader's worker lies in shared memory, which stays open until the last handle on it is gone.",
    )


def in_source(found: Found) -> Iterator[Finding]:
    """Tensors from DataLoader workers are collected."""
    for seen in found.of("worker tensor kept"):
        yield FAULT.finding(
            "this keeps tensors that worker processes share: each holds a piece of shared memory and a file descriptor",
            seen.places(),
            fix=Fix("keep a number (.item()), or a copy: .clone()"),
        )
