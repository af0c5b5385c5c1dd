"""What torch's optimizers tell a recorder: when a step is done, and which buffers are parameters or optimizer state."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import _profiler_enabled as profiler_enabled
from torch.optim import optimizer as optimizers
from torch.utils.hooks import RemovableHandle

from tenure.errors import described
from tenure.frameworks.base import Sink
from tenure.frameworks.torch import step_hooks

KINDS = ("parameter", "gradient", "optimizer state", "activation", "input")  # from 1 on, as in native/lives.h
PARAMETER, GRADIENT, STATE = 1, 2, 3
_UP = 2  # calls from this module's hook to what steps: `step_hooks` is between them
_DEEP = 4  # containers inside containers in an optimizer's state
_grad, _is_leaf = torch._C.TensorBase.grad, torch._C.TensorBase.is_leaf  # subclasses may have others


class _Known:
    """What is known of one optimizer."""

    def __init__(self, optimizer: Any, forget: Callable[[Any], object]) -> None:
        self.ref = weakref.ref(optimizer, forget)
        self.name = f"{type(optimizer).__name__}.step"
        self.of_torch = type(optimizer).__module__.startswith("torch.optim.")
        self.steps = 0
        self.alone_at = -1  # how many hooks there had ever been when none of others' was found
        self.size: int | None = None  # of its state


def _own(optimizer: Any, name: str) -> Any:
    """An attribute of the optimizer itself: to read another's property would run the user's code."""
    return object.__getattribute__(optimizer, "__dict__").get(name)


def _has_only_our_hooks(optimizer: Any) -> bool:
    everybodys = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
    own = (_own(optimizer, "_optimizer_step_pre_hooks"), _own(optimizer, "_optimizer_step_post_hooks"))
    hooks = (hook for some in (*everybodys, *own) if isinstance(some, dict) for hook in some.values())
    return all(str(getattr(hook, "__module__", "")).startswith("tenure.") for hook in hooks)


class Steps:
    """Counts a step each time the first optimizer steps again, so that several of them make one step together.

    `mark(tensors, kind)` receives each optimizer's parameters once, its state whenever that has grown, and gradients at
    every step.

    With the native recorder those go all at once, and a step of torch's own optimizers is one operation from the third on.
    It is half of all operations of a small model, always the same ones, on nothing but parameters, gradients and state.
    The first two are told in full, which make the state. From then on it is one use of each of these, with the memory
    that it needs for itself. Where somebody else may be at work inside everything is told, always.

    Optimizers, parameters and state may be of the user's own classes. Both hooks read only what needs no code of theirs,
    and an error in them reaches the trace, not the program.
    """

    _FULL = 2  # steps

    def __init__(self, sink: Sink, mark: Callable[[list[Any], int], object], core: Any = None) -> None:
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
        try:
            known = self._known.get(id(optimizer)) or self._meet(optimizer)
            known.steps += 1
            if known.alone_at != RemovableHandle.next_id:
                if known.steps <= self._FULL or not known.of_torch or not _has_only_our_hooks(optimizer):
                    return None
                known.alone_at = RemovableHandle.next_id
            if len(args) != 1 or kwargs or profiler_enabled():  # a closure runs inside, and a profiler wants to hear
                return None
            return self._core.begin_whole(known.name, args, _UP), kwargs
        except Exception as error:  # noqa: BLE001 - the trace has it
            return self._failed(error)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            self._done(optimizer)
        except Exception as error:  # noqa: BLE001 - the trace has it
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.sink.trouble(f"recording an optimizer's step: {described(error)}")

    def _done(self, optimizer: Any) -> None:
        groups, state = _own(optimizer, "param_groups"), _own(optimizer, "state")
        if self._core is not None:
            size = self._core.stepped(groups, state)
        else:
            size = _size(state)
            self._mark(_gradients(groups), GRADIENT)
        known = self._known.get(id(optimizer)) or self._meet(optimizer)
        if known.size != size:
            if known.size is None:
                self._mark(_parameters(groups), PARAMETER)
            self._mark(list(_tensors(state, _DEEP)), STATE)
            known.size = size
        if self._first is None or self._first() is None:
            self._first = known.ref
        if self._first() is optimizer:
            self.sink.step()


def _parameters(groups: Any) -> list[Any]:
    inside = (
        [dict.get(group, "params") for group in groups if issubclass(type(group), dict)] if type(groups) is list else ()
    )
    return [each for one in inside for each in _tensors(one, 1)]


def _gradients(groups: Any) -> list[Any]:
    with torch._C.DisableTorchFunction():
        found = [_grad.__get__(each) for each in _parameters(groups) if _is_leaf.__get__(each)]
    return [each for each in found if each is not None]


def _size(state: Any) -> int:
    """How many things the state consists of; the native recorder counts alike."""
    parts = list(dict.values(state)) if issubclass(type(state), dict) else ()
    return sum(map(_length, parts))


def _length(part: Any) -> int:
    kind = next((kind for kind in (dict, list) if issubclass(type(part), kind)), None)
    return 1 if kind is None else kind.__len__(part)


def _tensors(value: Any, deep: int) -> Iterator[Any]:
    """The tensors in containers of Python's own; of others nobody knows what it does to iterate over them."""
    if issubclass(type(value), torch.Tensor):
        yield value
    elif deep and issubclass(type(value), dict):
        for inner in list(dict.values(value)):
            yield from _tensors(inner, deep - 1)
    elif deep and type(value) in (list, tuple):
        for inner in list(value):
            yield from _tensors(inner, deep - 1)
