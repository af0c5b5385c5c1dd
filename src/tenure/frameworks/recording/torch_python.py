"""Watching torch from Python: the reference for the native recorder, and what is used where none can be built.

A dispatch mode sees each operation of the thread that began the trace: what it took and what it gave. A storage's end
is noticed at the next look at all of them, so where it ended is known only of what tenure ends. Slower than the native recorder by an order
of magnitude, blind to other threads, and to what an operation makes and frees inside itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from tenure import stacks
from tenure.frameworks.base import Sink
from tenure.frameworks.recording import torch_steps
from tenure.frameworks.torch.adapter import ADAPTER, is_symbolic

_KINDS = {
    torch_steps.PARAMETER: "parameter",
    torch_steps.GRADIENT: "gradient",
    torch_steps.STATE: "optimizer state",
}


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
        self._mode.__enter__()

    def stop(self) -> None:
        """Take the hooks out again."""
        self._steps.stop()
        self._mode.silent = True
        # Modes of the user's that were entered since are left as they are, and with them ours, silent.
        stack = _get_current_dispatch_mode_stack()
        if stack and stack[-1] is self._mode:
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
        key = _storage(tensor)
        if key is None:
            return
        if key in self._known:
            if not self._known[key].storage.expired():
                return
            self._look(key, stack)
        storage = tensor.untyped_storage()
        number = self._sink.born(
            "torch", storage.nbytes(), str(tensor.device), op, tuple(tensor.shape), str(tensor.dtype)[6:], stack, kind
        )
        in_backward = torch._C._current_autograd_node() is not None
        self._known[key] = _Known(
            number, StorageWeakRef(storage), storage.data_ptr(), bool(kind) or in_backward, storage.nbytes(), stack
        )

    def took(self, tensor: torch.Tensor, op: str, stack: int) -> None:
        """An operation took a tensor."""
        self.met(tensor, "", stack, "input")
        key = _storage(tensor)
        if key is None:
            return
        known = self._known[key]
        self._sink.used(known.number, op, stack)
        if not known.settled and torch._C._current_autograd_node() is not None:
            known.settled = True
            self._sink.is_a(known.number, "activation")

    def _look(self, key: int, stack: int) -> None:
        known = self._known.get(key)
        if known is not None and known.storage.expired():
            del self._known[key]
            self._sink.ended(known.number, self._cause or "last reference", stack)

    def _mark(self, address: int, kind: int) -> None:
        for known in list(self._known.values()):
            if known.address == address:
                known.settled = True
                self._sink.is_a(known.number, _KINDS[kind])

    @property
    def capture(self) -> Any:
        """How stacks are taken."""
        return self._capture


class _Mode(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, owner: InPython) -> None:
        super().__init__()
        self._owner = owner
        self.silent = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.silent:
            return func(*args, **kwargs)
        node = torch._C._current_autograd_node()
        op = node.name() if node is not None else f"aten::{func.overloadpacket.__name__}"
        stack = self._owner.capture()
        for tensor in _tensors((args, kwargs)):
            self._owner.took(tensor, op, stack)
        result = func(*args, **kwargs)
        for tensor in _tensors(result):
            self._owner.met(tensor, op, stack)
        return result


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _storage(tensor: torch.Tensor) -> int | None:
    with torch._C.DisableTorchFunctionSubclass():
        if is_symbolic(tensor) or not ADAPTER.buffers(tensor) or tensor.layout != torch.strided:
            return None
        return int(tensor.untyped_storage()._cdata)
