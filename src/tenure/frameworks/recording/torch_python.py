"""Watching torch from Python: the reference for the native recorder, and what is used where none can be built.

A dispatch mode sees each operation of the thread that began the trace: what it took and what it gave. A storage's end
is noticed at the next look at all of them, so where it ended is known only of what tenure ends. Slower than the native recorder by an order
of magnitude, blind to other threads, and to what an operation makes and frees inside itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily

from tenure import stacks
from tenure.errors import described
from tenure.frameworks.base import Sink
from tenure.frameworks.recording import torch_steps
from tenure.frameworks.torch.adapter import ADAPTER, address, storage_of

_KINDS = {
    torch_steps.PARAMETER: "parameter",
    torch_steps.GRADIENT: "gradient",
    torch_steps.STATE: "optimizer state",
}


_top, _new = _get_current_dispatch_mode, torch._C.TensorBase.__new__


@dataclass
class _Known:
    """A storage: its buffer's number, a weak reference, its address, whether its kind is known for good, its birth."""

    number: int
    storage: StorageWeakRef
    address: int
    settled: bool
    nbytes: int
    stack: int


class InPython:
    """The recorder in Python as a `Source`."""

    name = "torch"
    native = False
    tells_steps = False

    def start(self, sink: Sink) -> None:
        """Begin, with the tensors that are there already."""
        self._sink = sink
        self._capture = stacks.capturer()
        self._known: dict[int, _Known] = {}  # by storage
        self._cause = ""
        self._mode = _Mode(self)
        for tensor in ADAPTER.live():
            self.met(tensor, "", 0, "input")
        self._steps = torch_steps.Steps(sink, self._mark)

        def construct(*args: Any, **kwargs: Any) -> Any:  # torch's compiler compares its signature with another's
            return self._construct(*args, **kwargs)

        self._constructor = staticmethod(construct)
        if "__new__" not in vars(torch.Tensor):
            torch.Tensor.__new__ = self._constructor
        self._mode.__enter__()

    def trouble(self, error: Exception) -> None:
        """Note an error of ours: the operation goes on."""
        self._sink.trouble(f"recording torch: {described(error)}")

    def _construct(self, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor.__new__` without our mode on top.

        It makes an instance of a subclass from a result that has no Python object, and what a mode returns has one.
        """
        if _top() is not self._mode:
            return _new(*args, **kwargs)
        with _pop_mode_temporarily():
            made = _new(*args, **kwargs)
        if not self._mode.silent:
            try:
                self.met(made, "", self._capture())
            except Exception as error:  # noqa: BLE001 - the trace has it
                self.trouble(error)
        return made

    def stop(self) -> None:
        """Take the hooks out again."""
        self._steps.stop()
        if vars(torch.Tensor).get("__new__") is self._constructor:
            del torch.Tensor.__new__
        self._mode.silent = True
        # Modes of the user's that were entered since are left as they are, and with them ours, silent.
        if _top() is self._mode:
            self._mode.__exit__(None, None, None)

    def drain(self) -> None:
        """Look for storages that have gone."""
        for key in list(self._known):
            self._look(key, 0)

    def crowds(self) -> list[tuple[int, int, int, int, int]]:
        """The living in sums by the stack they were born at: itself, count, bytes, and last use and steps, unknown."""
        self.drain()
        found: dict[int, tuple[int, int]] = {}
        for known in list(self._known.values()):
            count, nbytes = found.get(known.stack, (0, 0))
            found[known.stack] = count + 1, nbytes + known.nbytes
        return [(stack, count, nbytes, 0, 0) for stack, (count, nbytes) in found.items() if stack]

    def members(self, places: list[int]) -> list[int]:
        """The addresses of those that were born at these stacks, the oldest first."""
        return [known.address for known in self._known.values() if known.stack in places]

    def crossed(self) -> int | None:
        """Not seen from here."""
        return None

    def on_failure(self, call: Callable[[int], None] | None) -> None:
        """Allocations are not seen from here."""

    def at_step(self, number: int, *, tell: bool) -> None:
        """Rows know the step themselves."""

    def forked(self, sink: Sink) -> None:
        """Forget the parent's."""
        self._sink = self._steps.sink = sink
        self._known.clear()

    def in_scope(self, name: str) -> None:
        """Rows know the scope themselves."""

    def ending(self, cause: str) -> None:
        """What is gone when the ending is done, went for this cause."""
        if not cause and self._cause:
            stack = self._capture()
            for key in list(self._known):
                self._look(key, stack)
        self._cause = cause

    def met(self, tensor: torch.Tensor, op: str, stack: int, kind: str = "") -> None:
        """A tensor was given or found: its storage is new, or known."""
        storage = storage_of(tensor)
        if storage is None:
            return
        key = storage._cdata
        if key in self._known:
            if not self._known[key].storage.expired():
                return
            self._look(key, stack)
        number = self._sink.born(
            "torch", storage.nbytes(), str(tensor.device), op, tuple(tensor.shape), str(tensor.dtype)[6:], stack, kind
        )
        in_backward = torch._C._current_autograd_node() is not None
        self._known[key] = _Known(
            number, StorageWeakRef(storage), address(tensor), bool(kind) or in_backward, storage.nbytes(), stack
        )

    def took(self, tensor: torch.Tensor, op: str, stack: int) -> None:
        """An operation took a tensor."""
        self.met(tensor, "", stack, "input")
        storage = storage_of(tensor)
        known = None if storage is None else self._known.get(storage._cdata)
        if known is None:
            return
        self._sink.used(known.number, op, stack)
        if not known.settled and torch._C._current_autograd_node() is not None:
            known.settled = True
            self._sink.is_a(known.number, "activation")

    def _look(self, key: int, stack: int) -> None:
        known = self._known.get(key)
        if known is not None and known.storage.expired():
            del self._known[key]
            self._sink.ended(known.number, self._cause or "last reference", stack)

    def _mark(self, tensors: list[torch.Tensor], kind: int) -> None:
        for tensor in tensors:
            storage = storage_of(tensor)
            known = None if storage is None else self._known.get(storage._cdata)
            if known is not None and not known.storage.expired():
                known.settled = True
                self._sink.is_a(known.number, _KINDS[kind])

    @property
    def capture(self) -> Any:
        """How stacks are taken."""
        return self._capture


class _Mode(TorchDispatchMode):  # type: ignore[misc]
    """Passes every operation on. Where torch asks, it says that it is no mode of the user's.

    torch.compile steps aside for users' modes, and operators that take functions (`cond`, `flex_attention`) reject them.
    """

    def __init__(self, owner: InPython) -> None:
        super().__init__()
        self._owner = owner
        self.silent = False
        self.supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Not a mode that a program has entered."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """What is compiled is seen as the compiled code runs it."""
        return True

    def _pass_on(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.silent:
            return func(*args, **kwargs)
        op, stack = "", 0
        with _uncompiled():
            try:
                node = torch._C._current_autograd_node()
                op = node.name() if node is not None else _name(func)
                stack = self._owner.capture()
                for tensor in _tensors((args, kwargs)):
                    self._owner.took(tensor, op, stack)
            except Exception as error:  # noqa: BLE001 - the trace has it
                self._owner.trouble(error)
        result = func(*args, **kwargs)
        with _uncompiled():
            try:
                for tensor in _tensors(result):
                    self._owner.met(tensor, op, stack)
            except Exception as error:  # noqa: BLE001 - the trace has it
                self._owner.trouble(error)
        return result


# Not in the class: torch would import its compiler at the first operation, to keep it from compiling this.
_Mode.__torch_dispatch__ = _Mode._pass_on


@cache
def _name(func: Any) -> str:
    """The name of an operation, `aten::add`; of one that takes functions, `cond`."""
    return "::".join(str(func).split(".")[:2])


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Keep torch's compiler, where it is at work around an operation, from compiling what is done here."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    before = set_eval_frame(None)
    try:
        yield
    finally:
        set_eval_frame(before)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among an operation's arguments or results, which are Python's own containers."""
    if issubclass(type(value), torch.Tensor):
        yield value
    elif issubclass(type(value), (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif type(value) is dict:
        yield from _tensors(list(value.values()))
