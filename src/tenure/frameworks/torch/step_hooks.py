"""Callables that run before and after each optimizer step.

An optimizer goes through torch's dictionary of hooks while it steps, and fails if that dictionary changes meanwhile. A
recording may end in the middle of a step, in any thread. So torch gets one hook of each kind, which stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tenure.frameworks.torch.uncompiled import uncompiled

Hook = Callable[[Any, Any, Any], Any]

_before: tuple[Hook, ...] = ()
_after: tuple[Hook, ...] = ()
_registered: set[str] = set()
_lock = threading.Lock()


def add(*, before: Hook | None = None, after: Hook | None = None) -> None:
    """Call these from now on, until they are removed."""
    global _before, _after
    with _lock:
        if before is not None:
            _before = (*_before, before)
            _register("before", register_optimizer_step_pre_hook, _run_before)
        if after is not None:
            _after = (*_after, after)
            _register("after", register_optimizer_step_post_hook, _run_after)


def remove(*hooks: Hook) -> None:
    """Call these no more."""
    global _before, _after
    with _lock:
        _before = tuple(hook for hook in _before if hook not in hooks)
        _after = tuple(hook for hook in _after if hook not in hooks)


def _register(kind: str, register: Callable[[Any], Any], hook: Hook) -> None:
    if kind not in _registered:
        _registered.add(kind)
        register(hook)


@uncompiled
def _run_before(optimizer: Any, args: Any, kwargs: Any) -> Any:
    if is_compiling():  # not run: traced into a graph
        return None
    result = None
    for hook in _before:
        changed = hook(optimizer, args, kwargs)
        result = changed if changed is not None else result
    return result


@uncompiled
def _run_after(optimizer: Any, args: Any, kwargs: Any) -> None:
    if is_compiling():
        return
    for hook in _after:
        hook(optimizer, args, kwargs)
