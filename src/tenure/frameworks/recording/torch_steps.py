"""What torch's optimizers tell a recorder: when a step is done, and which buffers are parameters or optimizer state."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd import _profiler_enabled as profiler_enabled
from torch.compiler import is_compiling
from torch.optim import optimizer as optimizers
from torch.utils.hooks import RemovableHandle

from tenure.frameworks.base import Sink
from tenure.frameworks.torch import step_hooks

PARAMETER, GRADIENT, STATE = 1, 2, 3  # as the native recorder numbers kinds


class _Known:
    """What is known of one optimizer."""

    def __init__(self, optimizer: Any, forget: Callable[[Any], object]) -> None:
        self.ref = weakref.ref(optimizer, forget)
        self.name = f"{type(optimizer).__name__}.step"
        self.of_torch = type(optimizer).__module__.startswith("torch.optim.")
        self.steps = 0
        self.alone_at = -1  # how many hooks there had ever been when none of others' was found
        self.size: int | None = None  # of its state


def _has_only_our_hooks(optimizer: Any) -> bool:
    everybodys = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
    own = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
    hooks = (hook for some in (*everybodys, *own) for hook in some.values())
    return all((getattr(hook, "__module__", None) or "").startswith("tenure.") for hook in hooks)


class Steps:
    """Counts a step each time the first optimizer steps again, so that several of them make one step together.

    `mark(address, kind)` is told what lies at an address: once for each optimizer's parameters, again when its state has
    grown, and gradients at every step.

    With the native recorder those go all at once, and a step of torch's own optimizers is one operation from the third on.
    It is half of all operations of a small model, always the same ones, on nothing but parameters, gradients and state.
    The first two are told in full, which make the state. From then on it is one use of each of these, with the memory
    that it needs for itself. Where somebody else may be at work inside everything is told, always.
    """

    _FULL = 2  # steps

    def __init__(self, sink: Sink, mark: Callable[[int, int], object], core: Any = None) -> None:
        self.sink = sink
        self._mark = mark
        self._core = core
        self._known: dict[int, _Known] = {}  # by address: a lookup at every step costs the user's program
        self._first: weakref.ref[Any] | None = None
        step_hooks.add(before=None if core is None else self._before, after=self._after)

    def stop(self) -> None:
        """Take the hooks out again."""
        step_hooks.remove(self._before, self._after)

    def _meet(self, optimizer: Any) -> _Known:
        number = id(optimizer)
        known = self._known[number] = _Known(optimizer, lambda _: self._known.pop(number, None))
        return known

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if is_compiling():
            return None
        known = self._known.get(id(optimizer)) or self._meet(optimizer)
        known.steps += 1
        if known.alone_at != RemovableHandle.next_id:
            if known.steps <= self._FULL or not known.of_torch or not _has_only_our_hooks(optimizer):
                return None
            known.alone_at = RemovableHandle.next_id
        if len(args) != 1 or kwargs or profiler_enabled():  # a closure runs inside, and a profiler wants to hear
            return None
        return self._core.begin_whole(known.name, args), kwargs

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._core is not None:
            size = self._core.stepped(optimizer.param_groups, optimizer.state)
        else:
            size = sum(map(len, optimizer.state.values()))
            parameters = (each for group in optimizer.param_groups for each in group["params"])
            self._mark_all((each.grad for each in parameters), GRADIENT)
        known = self._known.get(id(optimizer)) or self._meet(optimizer)
        if known.size != size:
            self._tell(optimizer, with_parameters=known.size is None)
            known.size = size
        if self._first is None or self._first() is None:
            self._first = known.ref
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
