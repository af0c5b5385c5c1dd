"""Watching TensorFlow from Python: what is used where the native recorder cannot be built.

Operations are seen through TensorFlow's own callbacks, in every thread that Python starts. Those cost several times
what the native recorder does, and miss which operations of C++ read a variable.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from tensorflow.python.eager import context, execute

from tenure import stacks
from tenure.errors import described
from tenure.frameworks.base import Sink
from tenure.frameworks.recording.tensorflow_hooks import (
    ALIASES,
    Hooks,
    around,
    describe,
    of_variable,
    op_name,
    there_already,
)
from tenure.frameworks.recording.tensorflow_sessions import Sessions


class Handle(weakref.ref[Any]):
    """A handle of a buffer, of which the first, `root`, counts the `holders`."""

    __slots__ = ("holders", "key", "number", "root", "stack", "step")

    holders: int
    key: int
    number: int  # of the buffer
    root: Handle
    stack: int  # of its birth
    step: int

    # Not those of the tensor, which has none.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class InPython:
    """TensorFlow's recorder in Python."""

    name = "tensorflow"
    native = False
    tells_steps = False

    def __init__(self) -> None:
        self._sink: Sink | None = None
        self._capture = stacks.capturer()
        self._sessions = Sessions(lambda: self._sink)
        self._hooks = Hooks(self, around, self._sessions)
        self._lists: dict[int, list[Any]] = {}  # a thread's callbacks
        self._begin()

    def _begin(self) -> None:
        self._handles: dict[int, Handle] = {}
        self._names: dict[Any, str] = {}
        self._steps: set[str] = set()  # functions that apply gradients
        self._step = 0
        self._cause: dict[int, str] = {}  # of each thread

    def start(self, sink: Sink) -> None:
        """Add the callback to every thread to come, and stand where constants, variables and steps are made."""
        self._sink = sink
        self._hooks.clear()
        tensors, variables = there_already()
        for tensor in tensors:
            self._birth(tensor, "", 0, "", monotonic_ns())
        for variable in variables:
            self._hooks.made(variable)
        self._enrol()
        self._hooks.patch(execute, "execute", lambda original: execute.execute_with_callbacks)
        self._hooks.patch(execute, "execute_with_cancellation", self._telling)
        self._hooks.patch(threading.Thread, "_bootstrap_inner", self._enrolling)
        self._hooks.start()

    def stop(self) -> None:
        """Leave everything as it was."""
        self._hooks.stop()
        self._sessions.stop()
        self._sink = None
        for callbacks in self._lists.values():
            if self._callback in callbacks:
                callbacks.remove(self._callback)
        self._lists.clear()
        self._handles.clear()

    def forked(self, sink: Sink) -> None:
        """Tensors of the parent are not this process's; other threads did not come along."""
        self._begin()
        self._sessions.forget()
        self._hooks.clear()
        self._sink = sink

    def drain(self) -> None:
        """The sink has it."""

    def living(self) -> list[tuple[int, int, int, Any]]:
        """Number, step, stack and first handle of each buffer."""
        found = [(handle, handle()) for handle in list(self._handles.values()) if handle.root is handle]
        return [(one.number, one.step, one.stack, tensor) for one, tensor in found if tensor is not None]

    def at_step(self, number: int, *, tell: bool) -> None:
        """What comes now belongs to the next step."""
        self._step = number

    def in_scope(self, name: str) -> None:
        """The sink knows."""

    def ending(self, cause: str) -> None:
        """What this thread ends, it ends for this cause."""
        self._cause[threading.get_ident()] = cause

    def _enrol(self) -> None:
        callbacks = context.context().op_callbacks
        if self._callback not in callbacks:
            callbacks.append(self._callback)
            self._lists[threading.get_ident()] = callbacks

    def _telling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def execute_with_cancellation(op: Any, count: Any, inputs: Any, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            outputs = original(op, count, inputs, attrs, *args, **kwargs)
            self._callback(op, inputs, attrs, outputs)
            return outputs

        return execute_with_cancellation

    def _enrolling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _bootstrap_inner(thread: Any) -> None:
            if self._sink is not None:
                self._enrol()
            try:
                original(thread)
            finally:
                self._lists.pop(threading.get_ident(), None)

        return _bootstrap_inner

    # Births, uses, ends

    def _callback(self, op: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        """After an operation. TensorFlow would raise into the user's code what is raised in here."""
        if graph is None and self._sink is not None:
            try:
                self._operation(op, inputs, outputs)
            except Exception as error:  # noqa: BLE001
                self.trouble(error)

    def _operation(self, op: Any, inputs: Any, outputs: Any) -> None:
        name = self._names.get(op)
        if name is None:
            name = self._names[op] = op_name(op)
        stack, time = self._capture(), monotonic_ns()
        first = None
        for tensor in inputs:
            handle = self._handles.get(id(tensor))
            if handle is not None and self._sink is not None:
                self._sink.used(handle.root.number, name, stack, time)
                if first is None and tensor is inputs[0]:
                    first = handle.root
        shared = first if name in ALIASES else None
        for tensor in outputs or ():
            if id(tensor) not in self._handles:
                self._birth(tensor, name, stack, "", time, shared)
        if name in self._steps:
            self._hooks.tick(name)

    def _birth(self, tensor: Any, op: str, stack: int, kind: str, time: int, shared: Handle | None = None) -> None:
        what = describe(tensor._datatype_enum(), tensor._shape_tuple(), tensor.device)
        if what is not None:
            self._begin_life(tensor, op, stack, kind, time, what, shared)

    def _begin_life(self, tensor: Any, op: str, stack: int, kind: str, time: int, what: tuple[list[int], str, str, int], shared: Handle | None = None) -> None:  # fmt: skip
        if self._sink is None:
            return
        handle = Handle(tensor, self._gone)
        handle.root = shared or handle
        handle.holders = 0
        handle.root.holders += 1
        handle.key = id(tensor)
        handle.stack, handle.step, handle.number = stack, self._step, 0
        if shared is None:
            shape, dtype, device, nbytes = what
            handle.number = self._sink.born("tensorflow", nbytes, device, op, shape, dtype, stack, kind, time)
        self._handles[handle.key] = handle

    def _gone(self, handle: Handle) -> None:
        if self._handles.get(handle.key) is handle and self._sink is not None:
            del self._handles[handle.key]
            handle.root.holders -= 1
            if not handle.root.holders:
                cause = self._cause.get(threading.get_ident()) or "last reference"
                self._sink.ended(handle.root.number, cause, self._capture())

    # What the hooks tell

    def born(self, tensor: Any, kind: str) -> None:
        """Python made it."""
        if id(tensor) not in self._handles:
            self._birth(tensor, "", self._capture(), kind, monotonic_ns())

    def variable(self, variable: Any, kind: str) -> None:
        """Its life is that of its handle."""
        found = of_variable(variable)
        what = None if found is None else describe(*found[1])
        if found is not None and what is not None and id(found[0]) not in self._handles:
            self._begin_life(found[0], "VarHandleOp", self._capture(), kind, monotonic_ns(), what)

    def is_a(self, tensor: Any, kind: str) -> None:
        """What it is was found out."""
        handle = self._handles.get(id(tensor))
        if handle is not None and handle.root is handle and self._sink is not None:
            self._sink.is_a(handle.number, kind)

    def steps_in(self, function: str) -> None:
        """A call of this function is a step."""
        self._steps.add(function)

    def stepped(self) -> None:
        """A step is done."""
        if self._sink is not None:
            self._sink.step()

    def trouble(self, error: BaseException) -> None:
        """The trace says it."""
        if self._sink is not None:
            self._sink.trouble(f"recording tensorflow: {described(error)}")
