"""Whether another thread is inside an operation on a tensor right now.

torch releases the interpreter lock during an operation and refers to its first operand through the handle. To take
the bytes from under it then would be a use after free, so those stay until the handle's last reference goes.
"""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType
from typing import Any

import torch

from tenure import frames
from tenure.frameworks.torch.counts import kept_by_native

# Where threads stand that only wait: file and function of their innermost frame.
_WAITING = {
    ("threading.py", "wait"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("threading.py", "join"),
    ("queue.py", "get"),
    ("queue.py", "put"),
    ("selectors.py", "select"),
    ("thread.py", "_worker"),
    ("connection.py", "_recv"),
}


def in_use(tensors: list[torch.Tensor]) -> set[int]:
    """The ids of those that a running thread may be reading now."""
    if not _others_run():
        return set()
    busy: set[int] = set()
    local = frames.local_references(tensors, everywhere=True)
    for index, references in enumerate(local):
        explained = references + sum(_mentions(thing, tensors[index]) for thing in gc.get_referrers(tensors[index]))
        rest = sys.getrefcount(tensors[index]) - 1 - explained - kept_by_native(tensors[index])
        if rest > 0:
            busy.add(id(tensors[index]))
    return busy


def _others_run() -> bool:
    mine = threading.get_ident()
    return any(ident != mine and not _waits(frame) for ident, frame in sys._current_frames().items())


def _waits(frame: FrameType) -> bool:
    code = frame.f_code
    return (code.co_filename.rpartition("/")[2], code.co_name) in _WAITING


def _mentions(thing: Any, tensor: torch.Tensor) -> int:
    # A frame's locals were counted above; the collector shows a frame only once it has ended or was copied.
    if isinstance(thing, FrameType):
        return 0
    return sum(1 for value in gc.get_referents(thing) if value is tensor)
