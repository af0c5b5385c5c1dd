"""The register of ended handles: what each was and where it ended. It holds them weakly and forgets the dead."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from tenure import errors
from tenure.model import Site, TensorInfo

# By the handle's id: a weak reference to it, its description, and its memory, which knows its buffers weakly.
_graves: dict[int, tuple[weakref.ref[Any], TensorInfo, Any]] = {}
_lock = threading.RLock()


def bury(handle: Any, info: TensorInfo) -> None:
    """Remember how this handle ended."""
    key = id(handle)

    def forget(dead: weakref.ref[Any]) -> None:
        with _lock:
            grave = _graves.get(key)
            if grave is not None and grave[0] is dead:
                del _graves[key]

    with _lock:
        _graves[key] = (weakref.ref(handle, forget), info, None)


def note(key: int, info: TensorInfo, memory: Any) -> None:
    """Remember the memory of the handle with this id, if it was released with this very description."""
    with _lock:
        grave = _graves.get(key)
        if grave is not None and grave[1] is info:
            _graves[key] = (grave[0], info, memory)


def memory(handle: Any) -> Any:
    """Return what `note` was given for this released handle, or None."""
    grave = _graves.get(id(handle))
    return grave[2] if grave is not None and grave[0]() is handle else None


def unbury(handle: Any) -> None:
    """Forget that this handle ended: it did not."""
    with _lock:
        _graves.pop(id(handle), None)


def find(handle: Any) -> TensorInfo | None:
    """How this handle ended, if tenure ended it."""
    grave = _graves.get(id(handle))
    return grave[1] if grave is not None and grave[0]() is handle else None


def complain(handle: Any, op: str, used: Site | None = None) -> errors.TensorReleased:
    """The error for using this ended handle in `op`."""
    info = find(handle)
    if info is None:
        raise AssertionError("complain() is for released handles")
    return errors.released(info, op, used)
