"""torch's private reference counters, asked only if this torch has them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache

import torch

_layout = torch._C.TensorBase.layout.__get__  # a subclass may compute its own


def handle_users(tensor: torch.Tensor) -> int | None:
    """How many references there are to the tensor below Python; the handle itself is one."""
    counter = getattr(torch.Tensor, "_use_count", None)
    if counter is None:
        return None
    if type(tensor) is torch.Tensor:
        return int(counter(tensor))
    with torch._C.DisableTorchFunctionSubclass():
        return int(counter(tensor))


def has_storage(tensor: torch.Tensor) -> bool:
    """Whether torch will give its storage: not of a tensor whose `.data` was set to an ended one."""
    has = getattr(torch._C, "_has_storage", None)
    return _layout(tensor) != torch.strided or has is None or bool(has(tensor))


def storage_users(tensor: torch.Tensor) -> int | None:
    """How many tensors (and others) refer to this tensor's storage."""
    counter = getattr(torch._C, "_storage_Use_Count", None)
    if counter is None:
        return None
    with torch._C.DisableTorchFunctionSubclass():
        storage = tensor.untyped_storage()
        # The Python object `storage` is one of them: ours, unless the user has it too.
        ours = sys.getrefcount(storage) <= 2 + _native_keeps_handles()
        return int(counter(storage._cdata)) - ours


def only_views_need(base: torch.Tensor, views: int) -> bool:
    """Whether nothing but so many views, the caller's name and its list with one entry a view refers to their base."""
    names = views + 3  # the list's, the caller's, ours, and the argument of getrefcount
    return handle_users(base) == views + 1 and sys.getrefcount(base) <= names + _native_keeps_handles()


@cache
def native_users() -> Callable[[torch.Tensor], int] | None:
    """What counts a plain tensor's users below Python, its handle included, if these hold the handle; else None."""
    return getattr(torch.Tensor, "_use_count", None) if _native_keeps_handles() else None


def kept_by_native(tensors: list[torch.Tensor]) -> list[bool]:
    """For each of these, whether one of the handle's Python references is held by native users of the tensor."""
    counter = native_users()
    if counter is None:
        return [False] * len(tensors)
    with torch._C.DisableTorchFunctionSubclass():
        return [users > 1 for users in map(counter, tensors)]


@cache
def _native_keeps_handles() -> bool:
    """Whether this torch counts native users of a tensor as one reference to its handle (seen in 2.13)."""
    found = []

    def look() -> None:
        probe = torch.ones(1, requires_grad=True, device="cpu")
        before = sys.getrefcount(probe)
        graph = probe * probe
        found.append(sys.getrefcount(probe) > before and graph is not None)

    # In a thread of its own, where the user's modes, hooks and traces are not: they would see it.
    thread = threading.Thread(target=look)
    try:
        thread.start()
    except RuntimeError:  # at the very end of the interpreter no thread starts (Python 3.12), and no mode is at work
        look()
    else:
        thread.join()
    return found == [True]
