"""Where TensorFlow makes constants, variables and gradients, and where its training loops end a step.

Steps: a batch of Keras's `fit`, a `train_on_batch`, and elsewhere an optimizer's `apply` or `apply_gradients`, or a call
of a `tf.function` in which one was traced. Of several optimizers the first is the clock, until it stops.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy
import tensorflow as tf
from tensorflow.python.eager import backprop, context
from tensorflow.python.framework import constant_op, dtypes, ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from tenure import heap
from tenure.frameworks import imports

Eager: Any = ops.EagerTensor

KINDS = ("parameter", "gradient", "optimizer state", "input", "constant")
_NOT_DATA = (dtypes.resource.as_datatype_enum, dtypes.variant.as_datatype_enum)
# Operations whose result is their first input's buffer.
ALIASES = frozenset((
    "Identity", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "PreventGradient", "EnsureShape", "Snapshot",
    "ReadVariableOp", "Bitcast",
))  # fmt: skip
_FUNCTION = re.compile(r"__(?:inference|forward|backward)_(.+?)_\d+")


class Teller(Protocol):
    """Who is told."""

    def born(self, tensor: Any, kind: str) -> None:
        """Python made this tensor."""

    def variable(self, variable: Any, kind: str) -> None:
        """There is a new variable."""

    def is_a(self, tensor: Any, kind: str) -> None:
        """What this tensor is was found out."""

    def steps_in(self, function: str) -> None:
        """A call of this function is a step."""

    def stepped(self) -> None:
        """A step is done."""

    def trouble(self, error: BaseException) -> None:
        """Something of ours went wrong."""


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


def op_name(op: Any) -> str:
    """What the trace calls an operation: a function by the name that its author gave it."""
    text = op.decode() if isinstance(op, bytes) else str(op)
    function = _FUNCTION.fullmatch(text)
    return function[1] if function else text


def describe(enum: int, shape: Any, device: str) -> tuple[list[int], str, str, int] | None:
    """Shape, dtype, device and bytes of such a tensor; None if it holds no data."""
    if enum in _NOT_DATA:
        return None
    dtype = dtypes.as_dtype(enum)
    sizes = list(shape)
    nbytes = int(numpy.prod(sizes, dtype="i8")) * (dtype.size if dtype != dtypes.string else 0)
    return sizes, dtype.name, device.rpartition("device:")[2] or device, nbytes


def of_variable(variable: Any) -> tuple[Any, tuple[int, Any, str]] | None:
    """A variable's handle, and what `describe` takes; None if it is symbolic, or of no fixed size."""
    handle: Any = getattr(variable, "_handle", None)
    if type(handle) is not Eager or not variable.shape.is_fully_defined():
        return None
    return handle, (variable.dtype.as_datatype_enum, tuple(variable.shape.as_list()), handle.device)


def there_already() -> tuple[list[Any], list[Any]]:
    """The tensors and the variables that are there; none before TensorFlow has begun, which is sooner seen than searched."""
    if context.context_safe() is None:
        return [], []
    # `issubclass` would ask the classes' own code.
    found = list(heap.instances(lambda kind: kind is Eager or BaseResourceVariable in kind.__mro__))
    return [one for one in found if type(one) is Eager], [one for one in found if type(one) is not Eager]


class Hooks:
    """They are in place from `start` to `stop`."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._on = False
        self._patches: list[tuple[Any, str, Any, Any]] = []
        self.clear()

    def clear(self) -> None:
        """Begin to count steps anew."""
        self._clock = Clock()
        self._inside = threading.local()  # how deep in Keras's loops, in optimizers

    def start(self) -> None:
        """Put them in."""
        self._on = True
        self.patch(constant_op, "convert_to_eager_tensor", self._converting)
        self.patch(BaseResourceVariable, "__init__", self._making)
        self.patch(backprop.GradientTape, "gradient", self._differentiating)
        imports.when_imported("keras", self._watch_keras)

    def _watch_keras(self, name: str) -> None:
        from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
        from keras.src.callbacks.callback_list import CallbackList
        from keras.src.optimizers.base_optimizer import BaseOptimizer

        if not self._on:
            return
        self.patch(TensorFlowTrainer, "fit", lambda original: self._looping(original, steps=False))
        self.patch(TensorFlowTrainer, "train_on_batch", lambda original: self._looping(original, steps=True))
        self.patch(CallbackList, "on_train_batch_end", self._ending_batch)
        self.patch(BaseOptimizer, "apply", self._applying)
        self.patch(BaseOptimizer, "add_variable_from_reference", self._keeping_state)
        self.patch(BaseOptimizer, "add_variable", self._keeping_state)

    def patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put what `make` makes of the original in its place."""
        original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        patched = make(original)
        setattr(owner, name, patched)
        self._patches.append((owner, name, original, patched))

    def stop(self) -> None:
        """Leave everything as it was."""
        self._on = False
        imports.forget(self._watch_keras)
        for owner, name, original, patched in reversed(self._patches):
            if (owner.__dict__ if isinstance(owner, type) else vars(owner)).get(name) is patched:
                setattr(owner, name, original)
        self._patches.clear()

    def _safely(self, call: Callable[..., None], *args: Any) -> None:
        """What goes wrong in a recorder is no business of the user's code; the trace says it."""
        if self._on:
            try:
                call(*args)
            except Exception as error:  # noqa: BLE001
                self._teller.trouble(error)

    # Births

    def _converting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        born = self._teller.born

        def convert_to_eager_tensor(value: Any, ctx: Any, dtype: Any = None) -> Any:
            tensor = original(value, ctx, dtype)
            if tensor is not value:
                self._safely(born, tensor, "input" if isinstance(value, numpy.ndarray) else "constant")
            return tensor

        return convert_to_eager_tensor

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(variable: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(variable, *args, **kwargs)
            self._safely(self.made, variable)

        return __init__

    def made(self, variable: Any) -> None:
        """There is a variable."""
        is_state = getattr(self._inside, "state", 0)
        self._teller.variable(variable, "optimizer state" if is_state else "parameter" if variable.trainable else "")

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(tape: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(tape, *args, **kwargs)
            self._safely(self._are_gradients, found)
            return found

        return gradient

    def _are_gradients(self, found: Any) -> None:
        for tensor in tf.nest.flatten(found):
            self._teller.is_a(tensor, "gradient")

    # Steps

    def _looping(self, original: Callable[..., Any], *, steps: bool) -> Callable[..., Any]:
        def loop(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._inside.loop = getattr(self._inside, "loop", 0) + 1
            try:
                result = original(model, *args, **kwargs)
            finally:
                self._inside.loop -= 1
            if steps:
                self._safely(self._teller.stepped)
            return result

        return loop

    def _ending_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def on_train_batch_end(callbacks: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(callbacks, *args, **kwargs)
            self._safely(self._teller.stepped)
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
            self.tick(("optimizer", optimizer))
            return
        graph = ops.get_default_graph()
        while getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is not None:
            graph = graph.outer_graph
        name = getattr(graph, "name", "")
        if name:
            self._teller.steps_in(name)

    def _keeping_state(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def add(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._inside.state = getattr(self._inside, "state", 0) + 1
            try:
                return original(optimizer, *args, **kwargs)
            finally:
                self._inside.state -= 1

        return add

    def tick(self, what: object) -> None:
        """Something that recurs once a step has happened."""
        if not getattr(self._inside, "loop", 0):
            for _ in range(self._clock.tick(what)):
                self._teller.stepped()
