"""What torch's optimizers tell a recorder: when a step is done, and which buffers are parameters or optimizer state."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import optimizer as optimizers
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from tenure.frameworks.base import Sink

PARAMETER, GRADIENT, STATE = 1, 2, 3  # as the native recorder numbers kinds


class OwnHooks:
    """Hooks of ours, and whether there have ever been any of others': those may be a tensor's, which run in backward."""

    _ours = 0

    @classmethod
    def register(cls, register: Callable[[Any], Any], hook: Any) -> Any:
        """The handle of a hook of ours."""
        before = RemovableHandle.next_id
        handle = register(hook)
        cls._ours += RemovableHandle.next_id - before
        return handle

    @classmethod
    def are_all(cls) -> bool:
        """Whether nobody else has any."""
        return bool(RemovableHandle.next_id == cls._ours)


class Whole:
    """An optimizer's step as one operation, from its third on.

    It is half of all operations of a small model, always the same ones, on nothing but parameters, gradients and state.
    Its first two steps are told in full, which make the state. From then on it is one use of each of these, with the
    memory that it needs for itself. Where somebody else may be at work inside (a closure, a hook, an optimizer that is
    not torch's own, the profiler) everything is told, always.
    """

    _FULL = 2  # steps

    def __init__(self, core: Any) -> None:
        self._core = core
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._hook = OwnHooks.register(register_optimizer_step_pre_hook, self._before)

    def stop(self) -> None:
        """Take the hook out again."""
        self._hook.remove()

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return None
        count = self._counts[optimizer] = self._counts.get(optimizer, 0) + 1
        if count <= self._FULL or not _is_alone(optimizer, args, kwargs):
            return None
        self._core.begin_whole(f"{type(optimizer).__name__}.step")
        return _Arguments(args, self._core), kwargs


class _Arguments(tuple[Any, ...]):  # noqa: SLOT001 - a tuple with attributes
    """The arguments of a step, which end with its frame: so also a step that fails is over for the recorder."""

    _thread: int
    _core: Any

    def __new__(cls, values: Any, core: Any) -> _Arguments:
        made = super().__new__(cls, values)
        made._core = core
        made._thread = threading.get_ident()
        return made

    def __del__(self) -> None:
        if threading.get_ident() == self._thread:
            self._core.end_whole()


def _is_alone(optimizer: Any, args: Any, kwargs: Any) -> bool:
    """Whether only torch's own code runs inside of the step."""
    hooks = (
        *optimizers._global_optimizer_pre_hooks.values(),
        *optimizers._global_optimizer_post_hooks.values(),
        *optimizer._optimizer_step_pre_hooks.values(),
        *optimizer._optimizer_step_post_hooks.values(),
    )
    return (
        len(args) == 1
        and not kwargs
        and type(optimizer).__module__.startswith("torch.optim.")
        and all((getattr(hook, "__module__", None) or "").startswith("tenure.") for hook in hooks)
        and not torch.autograd._profiler_enabled()
    )


class Steps:
    """Counts a step each time the first optimizer steps again, so that several of them make one step together.

    `mark(address, kind)` is told what lies at an address: once for each optimizer's parameters, again when its state has
    grown, and gradients at every step. With the native recorder those go all at once, and steps as a whole.
    """

    def __init__(self, sink: Sink, mark: Callable[[int, int], object], core: Any = None) -> None:
        self.sink = sink
        self._mark = mark
        self._core = core
        self._whole = None if core is None else Whole(core)
        self._first: weakref.ref[Any] | None = None
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._hook = OwnHooks.register(register_optimizer_step_post_hook, self._after)

    def stop(self) -> None:
        """Take the hook out again."""
        self._hook.remove()
        if self._whole is not None:
            self._whole.stop()

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._core is not None:
            size = self._core.stepped(optimizer.param_groups, optimizer.state, not OwnHooks.are_all())
        else:
            size = sum(map(len, optimizer.state.values()))
            parameters = (each for group in optimizer.param_groups for each in group["params"])
            self._mark_all((each.grad for each in parameters), GRADIENT)
        known = self._seen.get(optimizer)
        if known != size:
            self._seen[optimizer] = size
            self._tell(optimizer, with_parameters=known is None)
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
        if self._first() is optimizer:
            self.sink.step()

    def _tell(self, optimizer: Any, *, with_parameters: bool) -> None:
        if with_parameters:
            self._mark_all((each for group in optimizer.param_groups for each in group["params"]), PARAMETER)
        self._mark_all((each for state in optimizer.state.values() for each in state.values()), STATE)

    def _mark_all(self, values: Iterable[Any], kind: int) -> None:
        with torch._C.DisableTorchFunctionSubclass():
            for value in values:
                if isinstance(value, torch.Tensor) and value.layout == torch.strided and value.device.type != "meta":
                    self._mark(value.untyped_storage().data_ptr(), kind)
