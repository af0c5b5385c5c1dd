"""What torch's optimizers tell a recorder: when a step is done, and which buffers are parameters or optimizer state."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tenure.frameworks.base import Sink

PARAMETER, GRADIENT, STATE = 1, 2, 3  # as the native recorder numbers kinds


class Steps:
    """Counts a step each time the first optimizer steps again, so that several of them make one step together.

    `mark(address, kind)` is told what lies at an address: once for each optimizer's parameters, again when its state has
    grown, and gradients at every step; `gradients`, where given, takes the parameters' addresses for those at once.
    """

    def __init__(
        self, sink: Sink, mark: Callable[[int, int], object], gradients: Callable[[list[int]], object] | None = None
    ) -> None:
        self.sink = sink
        self._mark = mark
        self._gradients = gradients
        self._first: weakref.ref[Any] | None = None
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._hook = register_optimizer_step_post_hook(self._after)

    def stop(self) -> None:
        """Take the hook out again."""
        self._hook.remove()

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        known = self._seen.get(optimizer)
        size = sum(map(len, optimizer.state.values()))
        if known != size:
            self._seen[optimizer] = size
            self._tell(optimizer, with_parameters=known is None)
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if self._gradients is not None:
            self._gradients([each._cdata for each in parameters])
        else:
            self._mark_all((each.grad for each in parameters), GRADIENT)
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
