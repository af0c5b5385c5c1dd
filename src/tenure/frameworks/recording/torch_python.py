"""Watching torch from Python: the reference for the native recorder, and what is used where none can be built.

A dispatch mode sees each operation of the thread that began the trace, and of those that Python starts later: what it
took and what it gave. A storage's end is noticed at the next look at all of them, so where it ended is known only of what
tenure ends. Slower than the native recorder by an order of magnitude, blind to threads that ran before or that Python
did not start, and to what an operation makes and frees inside itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from time import monotonic_ns
from typing import Any

import torch
from torch._C import _push_on_torch_dispatch_stack
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily

from tenure import stacks
from tenure.errors import described
from tenure.frameworks.base import Sink
from tenure.frameworks.recording import torch_steps
from tenure.frameworks.recording.torch_plumbing import PLUMBING
from tenure.frameworks.torch.adapter import ADAPTER, address, storage_of
from tenure.frameworks.torch.uncompiled import uncompiled

_Thread: Any = threading.Thread
# What subclasses may compute by themselves is asked of torch.
_shape, _dtype, _is_nested = (vars(torch._C.TensorBase)[name].__get__ for name in ("shape", "dtype", "is_nested"))
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
_top, _new = _get_current_dispatch_mode, torch._C.TensorBase.__new__


@dataclass
class _Known:
    """A storage: its buffer's number, a weak reference, its address, whether its kind is known for good, its birth and use."""

    number: int
    storage: StorageWeakRef
    address: int
    settled: bool
    nbytes: int
    stack: int
    step: int
    last_use: int = 0


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
        self._step = 0
        self._cause = ""
        self._mode = _Mode(self)
        for tensor in ADAPTER.live():
            self.met(tensor, "", 0, "input")
        self._steps = torch_steps.Steps(sink, self._mark)

        @uncompiled
        def construct(*args: Any, **kwargs: Any) -> Any:  # torch's compiler compares its signature with another's
            return self._construct(*args, **kwargs)

        self._constructor = staticmethod(construct)
        if "__new__" not in vars(torch.Tensor):
            torch.Tensor.__new__ = self._constructor
        self._mode.__enter__()
        self._bootstrap = _Thread._bootstrap_inner
        _Thread._bootstrap_inner = self._bootstrapped = _entering(self._bootstrap, self._mode)

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
        if _Thread._bootstrap_inner is self._bootstrapped:
            _Thread._bootstrap_inner = self._bootstrap
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
        """The living in sums by the stack they were born at: itself, count, bytes, last use, steps (a bit each)."""
        self.drain()
        found: dict[int, tuple[int, int, int, int]] = {}
        for known in list(self._known.values()):
            count, nbytes, last, steps = found.get(known.stack, (0, 0, 0, 0))
            steps |= 1 << (known.step & 63)
            found[known.stack] = count + 1, nbytes + known.nbytes, max(last, known.last_use), steps
        return [(stack, *sums) for stack, sums in found.items() if stack]

    def members(self, places: list[int]) -> list[int]:
        """The addresses of those that were born at these stacks, the oldest first."""
        return [known.address for known in list(self._known.values()) if known.stack in places]

    def graphs(self) -> list[int]:
        """Return no stack: graphs are not seen from here."""
        return []

    def crossed(self) -> int | None:
        """Not seen from here."""
        return None

    def on_failure(self, call: Callable[[int], None] | None) -> None:
        """Allocations are not seen from here."""

    def at_step(self, number: int, *, tell: bool) -> None:
        """Rows know the step themselves; it counts for `crowds`."""
        self._step = number

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
        with torch._C.DisableTorchFunction():
            shape = None if _is_nested(tensor) else tuple(_shape(tensor))
            dtype = str(_dtype(tensor)).removeprefix("torch.")
        number = self._sink.born("torch", storage.nbytes(), str(storage.device), op, shape, dtype, stack, kind)
        in_backward = torch._C._current_autograd_node() is not None
        self._known[key] = _Known(
            number,
            StorageWeakRef(storage),
            address(tensor),
            bool(kind) or in_backward,
            storage.nbytes(),
            stack,
            self._step,
        )

    def took(self, tensor: torch.Tensor, op: str, stack: int) -> None:
        """An operation took a tensor."""
        self.met(tensor, "", stack, "input")
        storage = storage_of(tensor)
        known = None if storage is None else self._known.get(storage._cdata)
        if known is None:
            return
        known.last_use = monotonic_ns()
        self._sink.used(known.number, op, stack, known.last_use)
        if not known.settled and torch._C._current_autograd_node() is not None:
            known.settled = True
            self._sink.is_a(known.number, "activation")

    def _look(self, key: int, stack: int) -> None:
        known = self._known.get(key)
        if known is not None and known.storage.expired():
            self._known.pop(key, None)  # another thread may look, too
            self._sink.ended(known.number, self._cause or "last reference", stack)

    def _mark(self, tensors: list[torch.Tensor], kind: int) -> None:
        for tensor in tensors:
            storage = storage_of(tensor)
            known = None if storage is None else self._known.get(storage._cdata)
            if known is not None and not known.storage.expired():
                known.settled = True
                self._sink.is_a(known.number, torch_steps.KINDS[kind - 1])

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

    @uncompiled
    def _pass_on(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.silent:
            return func(*args, **kwargs)
        op, stack = "", 0
        try:
            node = torch._C._current_autograd_node()
            op = node.name() if node is not None else _name(func)
            stack = self._owner.capture()
            reads = _name(func) not in PLUMBING
            for tensor in _tensors((args, kwargs)):
                if reads:
                    self._owner.took(tensor, op, stack)
                else:
                    self._owner.met(tensor, "", stack, "input")
            args = _with_tensors(func, args)
        except Exception as error:  # noqa: BLE001 - the trace has it
            self._owner.trouble(error)
        result = func(*args, **kwargs)
        try:
            for tensor in _tensors(result):
                self._owner.met(tensor, op, stack)
        except Exception as error:  # noqa: BLE001 - the trace has it
            self._owner.trouble(error)
        return result


def _entering(original: Any, mode: _Mode) -> Any:
    """What a thread begins with, so that the mode is in place in each thread that Python starts."""

    def _bootstrap_inner(thread: Any) -> None:
        if not mode.silent and not thread.name.startswith("tenure-"):
            _push_on_torch_dispatch_stack(mode)  # without the flags of `__enter__`, which all threads share
        original(thread)

    return _bootstrap_inner


# Not in the class: torch would import its compiler at the first operation, to keep it from compiling this.
_Mode.__torch_dispatch__ = _Mode._pass_on


def _with_tensors(func: Any, args: Any) -> Any:
    """The arguments as the operation takes them: a mode gets numbers for tensors that torch has made of numbers."""
    numbers = [place for place in _wanting_tensors(func) if place < len(args) and type(args[place]) in _NUMBERS]
    if not numbers:
        return args
    found = list(args)
    for place in numbers:
        found[place] = torch.tensor(args[place], dtype=_NUMBERS[type(args[place])])
    return tuple(found)


@cache
def _wanting_tensors(func: Any) -> tuple[int, ...]:
    """The places of arguments for which this operation takes tensors and no numbers."""
    schema = getattr(func, "_schema", None)
    if schema is None or torch._C._should_allow_numbers_as_tensors(schema.name.rpartition("::")[2]):
        return ()
    return tuple(place for place, each in enumerate(schema.arguments) if str(each.type) == "Tensor")


@cache
def _name(func: Any) -> str:
    """The name of an operation, `aten::add`; of one that takes functions, `cond`."""
    return "::".join(str(func).split(".")[:2])


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among an operation's arguments or results, which are Python's own containers."""
    if issubclass(type(value), torch.Tensor):
        yield value
    elif issubclass(type(value), (list, tuple)):
        for one in value:
            yield from _tensors(one)
    elif type(value) is dict:
        yield from _tensors(list(value.values()))
