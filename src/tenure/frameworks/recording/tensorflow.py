"""What happens to TensorFlow's eager tensors and variables.

Operations are seen through TensorFlow's own callbacks, in every thread that Python starts: what they give is born,
what they take is used. A call of a `tf.function` is one operation, by the function's name; what goes on inside is the
runtime's and is not seen, and nothing is recorded while a graph is built. Constants and conversions, which those
callbacks miss, are seen where Python makes them; variables where they are made, with the life of their handle.

Some operations give their input's buffer under a new handle (`Identity`, `Reshape` and the like, and the reading of a
variable): it counts once, and ends with the last of them. What shares a buffer in other ways counts again: a result
of a `tf.function` that is its argument, a value assigned to a variable while its own handle lives, slices. A read
of a variable that is still held when the variable is assigned to goes its own way, unseen. Operations of C++ read
variables without telling: that use of the variable is not seen. The bytes of strings are not known.

Steps: a batch of Keras's `fit`, a `train_on_batch`, and elsewhere an optimizer's `apply` or `apply_gradients`, or a call
of a `tf.function` in which one was traced. Of several optimizers the first is the clock, until it stops.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import numpy
import tensorflow as tf
from tensorflow.python.eager import backprop, context, execute
from tensorflow.python.framework import constant_op, dtypes, ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from tenure import heap, stacks
from tenure.frameworks import imports
from tenure.frameworks.base import Sink, Source
from tenure.frameworks.recording.table import FIRST_TENSORFLOW, Buffer, Table, What

Eager: Any = ops.EagerTensor

_KINDS = (None, "parameter", "gradient", "optimizer state", "input", "constant")
_PARAMETER, _GRADIENT, _STATE, _INPUT, _CONSTANT = range(1, 6)
_NOT_DATA = (dtypes.resource.as_datatype_enum, dtypes.variant.as_datatype_enum)
# Operations whose result is their first input's buffer.
_ALIASES = (
    "Identity", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "PreventGradient", "EnsureShape", "Snapshot",
    "ReadVariableOp", "Bitcast",
)  # fmt: skip
_FUNCTION = re.compile(r"__(?:inference|forward|backward)_(.+?)_\d+")


def source() -> Source:
    """The recorder."""
    return Tensorflow()


class Clock:
    """Which of several things that recur once a step is the one that counts: the first, until it stops."""

    def __init__(self) -> None:
        self._chosen: object = None
        self._since: dict[object, int] = {}

    def tick(self, what: object) -> int:
        """How many steps are done now."""
        if self._chosen is None or what == self._chosen:
            self._chosen = what
            self._since.clear()
            return 1
        since = self._since[what] = self._since.get(what, 0) + 1
        if since < 3:
            return 0
        self._chosen = what
        self._since.clear()
        return since


class Tensorflow:
    """TensorFlow's recorder."""

    name = "tensorflow"
    native = False
    tells_steps = False

    def __init__(self) -> None:
        self._sink: Sink | None = None
        self._capture = stacks.capturer()
        self._patches: list[tuple[Any, str, Any, Any]] = []
        self._lists: dict[int, list[Any]] = {}  # a thread's callbacks
        self._begin()

    def _begin(self) -> None:
        self._table = Table(FIRST_TENSORFLOW, _KINDS)
        self._handles: dict[int, Buffer] = {}
        self._ops: dict[Any, int] = {}
        self._whats: dict[Any, tuple[int, int]] = {}
        self._clock = Clock()
        self._inside = threading.local()  # how deep in Keras's loops, in optimizers
        self._steps: set[str] = set()  # functions that apply gradients
        self._watched: frozenset[int] = frozenset()  # the numbers of their operations

    # Coming and going

    def start(self, sink: Sink) -> None:
        """Add the callback to every thread to come, and stand where constants, variables and steps are made."""
        self._sink = sink
        for tensor in heap.instances(lambda kind: kind is Eager):
            self._birth(tensor, -1, 0, 0, monotonic_ns())
        for variable in heap.instances(lambda kind: issubclass(kind, BaseResourceVariable)):
            self._variable(variable)
        self._enrol()
        self._patch(execute, "execute", lambda original: execute.execute_with_callbacks)
        self._patch(execute, "execute_with_cancellation", self._telling)
        self._patch(threading.Thread, "_bootstrap_inner", self._enrolling)
        self._patch(constant_op, "convert_to_eager_tensor", self._converting)
        self._patch(BaseResourceVariable, "__init__", self._making)
        self._patch(backprop.GradientTape, "gradient", self._differentiating)
        imports.when_imported("keras", self._watch_keras)

    def _watch_keras(self, name: str) -> None:
        from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
        from keras.src.callbacks.callback_list import CallbackList
        from keras.src.optimizers.base_optimizer import BaseOptimizer

        if self._sink is None:
            return
        self._patch(TensorFlowTrainer, "fit", lambda original: self._looping(original, steps=False))
        self._patch(TensorFlowTrainer, "train_on_batch", lambda original: self._looping(original, steps=True))
        self._patch(CallbackList, "on_train_batch_end", self._ending_batch)
        self._patch(BaseOptimizer, "apply", self._applying)
        self._patch(BaseOptimizer, "add_variable_from_reference", self._keeping_state)
        self._patch(BaseOptimizer, "add_variable", self._keeping_state)

    def _patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        patched = make(original)
        setattr(owner, name, patched)
        self._patches.append((owner, name, original, patched))

    def stop(self) -> None:
        """Leave everything as it was."""
        self._sink = None
        imports.forget(self._watch_keras)
        for owner, name, original, patched in reversed(self._patches):
            if (owner.__dict__ if isinstance(owner, type) else vars(owner)).get(name) is patched:
                setattr(owner, name, original)
        self._patches.clear()
        for callbacks in self._lists.values():
            if self._callback in callbacks:
                callbacks.remove(self._callback)
        self._lists.clear()
        self._handles.clear()

    def forked(self, sink: Sink) -> None:
        """Tensors of the parent are not this process's; other threads did not come along."""
        self._begin()
        self._sink = sink

    def drain(self) -> Any:
        """What was seen since the last time."""
        return self._table.take()

    def handles(self) -> list[Buffer]:
        """All handles that live."""
        return list(self._handles.values())

    def at_step(self, number: int) -> None:
        """What comes now belongs to the next step."""
        self._table.step = number

    def in_scope(self, name: str) -> None:
        """What this thread makes belongs to this scope."""
        self._table.in_scope(name)

    def ending(self, cause: str) -> None:
        """What this thread ends, it ends for this cause."""
        self._table.ending(cause)

    def _enrol(self) -> None:
        callbacks = context.context().op_callbacks
        if self._callback not in callbacks:
            callbacks.append(self._callback)
            self._lists[threading.get_ident()] = callbacks

    # Births, uses, ends

    def _callback(self, op: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        """After an operation. TensorFlow would raise into the user's code what is raised in here."""
        if graph is not None or self._sink is None:
            return
        self._safely(self._operation, op, inputs, outputs)

    def _safely(self, call: Callable[..., None], *args: Any) -> None:
        """What goes wrong in a recorder is no business of the user's code; the trace says it."""
        sink = self._sink
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001
            if sink is not None:
                sink.trouble(f"recording tensorflow: {error!r}")

    def _operation(self, op: Any, inputs: Any, outputs: Any) -> None:
        number = self._ops.get(op)
        if number is None:
            number = self._name(op)
        stack = self._capture()
        time = monotonic_ns()
        handles, used = self._handles, self._table.used
        first = None
        for tensor in inputs:
            handle = handles.get(id(tensor))
            if handle is not None:
                buffer = handle if handle.root is None else handle.root
                buffer.uses += 1
                buffer.last_use = time
                buffer.last_op = number
                buffer.last_stack = stack
                used.add(buffer)
                if first is None and tensor is inputs[0]:
                    first = buffer
        shared = first if first is not None and number in self._aliasing else None
        for tensor in outputs or ():
            if id(tensor) not in handles:
                self._birth(tensor, number, stack, 0, time, shared)
        if number in self._watched:
            self._tick(number)

    def _birth(self, tensor: Any, op: int, stack: int, kind: int, time: int, shared: Buffer | None = None) -> None:
        key = tensor._datatype_enum(), tensor._shape_tuple(), tensor.device
        what = self._whats.get(key)
        if what is None:
            what = self._describe(key)
        if what[0] < 0:
            return
        if shared is None:
            handle = self._table.born(tensor, self._gone, what[1], op, what[0], stack, kind, time)
        else:
            handle = Buffer(tensor, self._gone)
            handle.root = shared
            shared.holders += 1
        handle.key = id(tensor)
        self._handles[handle.key] = handle

    def _gone(self, handle: Buffer) -> None:
        if self._handles.get(handle.key) is handle:
            del self._handles[handle.key]
            buffer = handle if handle.root is None else handle.root
            buffer.holders -= 1
            if not buffer.holders:
                self._table.ended(buffer, self._capture())

    def _describe(self, key: tuple[int, Any, str]) -> tuple[int, int]:
        """The number of what such tensors hold, and their bytes; below zero for those that hold no data."""
        enum, shape, device = key
        if enum in _NOT_DATA:
            self._whats[key] = -1, 0
            return -1, 0
        dtype = dtypes.as_dtype(enum)
        sizes = list(shape)
        nbytes = int(numpy.prod(sizes, dtype="i8")) * (dtype.size if dtype != dtypes.string else 0)
        place = device.rpartition("device:")[2] or device
        self._table.whats.append(What(str(sizes), dtype.name, place))
        self._whats[key] = what = len(self._table.whats) - 1, nbytes
        return what

    def _name(self, op: Any) -> int:
        text = op.decode() if isinstance(op, bytes) else str(op)
        function = _FUNCTION.fullmatch(text)
        self._table.ops.append(function[1] if function else text)
        self._ops[op] = number = len(self._table.ops) - 1
        self._aliasing = frozenset(at for at, name in enumerate(self._table.ops) if name in _ALIASES)
        self._look_for_steps()
        return number

    _aliasing: frozenset[int] = frozenset()

    def _variable(self, variable: Any) -> None:
        handle: Any = getattr(variable, "_handle", None)
        if type(handle) is not Eager or id(handle) in self._handles or not variable.shape.is_fully_defined():
            return
        kind = _STATE if getattr(self._inside, "state", 0) else _PARAMETER if variable.trainable else 0
        key = variable.dtype.as_datatype_enum, tuple(variable.shape.as_list()), handle.device
        what = self._whats.get(key) or self._describe(key)
        number = self._ops.get("VarHandleOp")
        if number is None:
            number = self._name("VarHandleOp")
        born = self._table.born(handle, self._gone, what[1], number, what[0], self._capture(), kind, monotonic_ns())
        born.key = id(handle)
        self._handles[born.key] = born

    # What stands in for TensorFlow's own

    def _telling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def execute_with_cancellation(op: Any, count: Any, inputs: Any, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            outputs = original(op, count, inputs, attrs, *args, **kwargs)
            self._callback(op, inputs, attrs, outputs)
            return outputs

        return execute_with_cancellation

    def _enrolling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _bootstrap_inner(thread: Any) -> None:
            if self._sink is not None and thread.name != "tenure-writer":
                self._enrol()
            try:
                original(thread)
            finally:
                self._lists.pop(threading.get_ident(), None)

        return _bootstrap_inner

    def _converting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def convert_to_eager_tensor(value: Any, ctx: Any, dtype: Any = None) -> Any:
            tensor = original(value, ctx, dtype)
            if self._sink is not None and tensor is not value and id(tensor) not in self._handles:
                kind = _INPUT if isinstance(value, numpy.ndarray) else _CONSTANT
                self._safely(self._birth, tensor, -1, self._capture(), kind, monotonic_ns())
            return tensor

        return convert_to_eager_tensor

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(variable: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(variable, *args, **kwargs)
            if self._sink is not None:
                self._safely(self._variable, variable)

        return __init__

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(tape: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(tape, *args, **kwargs)
            if self._sink is not None:
                self._safely(self._are_gradients, found)
            return found

        return gradient

    def _are_gradients(self, found: Any) -> None:
        for tensor in tf.nest.flatten(found):
            handle = self._handles.get(id(tensor))
            if handle is not None and handle.root is None and not handle.kind:
                self._table.is_a(handle, _GRADIENT)

    # Steps

    def _looping(self, original: Callable[..., Any], *, steps: bool) -> Callable[..., Any]:
        def loop(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._inside.loop = getattr(self._inside, "loop", 0) + 1
            try:
                result = original(model, *args, **kwargs)
            finally:
                self._inside.loop -= 1
            if steps:
                self._step()
            return result

        return loop

    def _ending_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def on_train_batch_end(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(callbacks, *args, **kwargs)
            self._step()
            return result

        return on_train_batch_end

    def _applying(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            deep = getattr(self._inside, "optimizer", 0)
            self._inside.optimizer = deep + 1
            try:
                result = original(optimizer, *args, **kwargs)
            finally:
                self._inside.optimizer = deep
            if not deep:
                self._safely(self._applied, id(optimizer))
            return result

        return apply

    def _applied(self, optimizer: int) -> None:
        if context.executing_eagerly():
            self._tick(("optimizer", optimizer))
            return
        graph = ops.get_default_graph()
        while getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is not None:
            graph = graph.outer_graph
        name = getattr(graph, "name", "")
        if name:
            self._steps.add(name)
            self._look_for_steps()

    def _look_for_steps(self) -> None:
        self._watched = frozenset(at for at, name in enumerate(self._table.ops) if name in self._steps)

    def _keeping_state(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def add(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._inside.state = getattr(self._inside, "state", 0) + 1
            try:
                return original(optimizer, *args, **kwargs)
            finally:
                self._inside.state -= 1

        return add

    def _tick(self, what: object) -> None:
        if not getattr(self._inside, "loop", 0):
            for _ in range(self._clock.tick(what)):
                self._step()

    def _step(self) -> None:
        if self._sink is not None:
            self._sink.step()
