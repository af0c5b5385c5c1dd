"""Where TensorFlow makes constants, variables and gradients, and where its training loops end a step.

Steps: a batch of Keras's `fit`, a `train_on_batch`, and elsewhere an optimizer's `apply` or `apply_gradients`, or a call
of a `tf.function` in which one was traced. Of several optimizers the first is the clock, until it stops.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import backprop, context
from tensorflow.python.framework import constant_op, dtypes, ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from tenure import heap
from tenure.frameworks import imports
from tenure.frameworks.recording.tensorflow_sessions import FED, RUNS, Sessions
from tenure.frameworks.tensorflow import is_made

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


def only_device() -> str | None:
    """The device that all tensors are on; None if there are several. Asked when there is a tensor: then all are known."""
    names = [device.name for device in context.context().list_logical_devices()]
    return f"/job:localhost/replica:0/task:0{names[0]}" if len(names) == 1 else None


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
    found = list(heap.instances({Eager, *heap.family(BaseResourceVariable)}))
    variables = [one for one in found if type(one) is not Eager and is_made(one)]
    return [one for one in found if type(one) is Eager], variables


Before = Callable[[Any], None]  # with one argument, the first if not said
After = Callable[[bool, Any, Any], None]  # whether it returned, what, and that argument


def around(original: Callable[..., Any], before: Before | None, after: After | None, at: int = 0) -> Callable[..., Any]:
    """What to call instead of it, with these beside it, which get one argument: the Python twin of the native part's."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        first = args[at] if len(args) > at else None
        if before is not None:
            before(first)
        returned, result = False, None
        try:
            result = original(*args, **kwargs)
            returned = True
        finally:
            if after is not None:
                after(returned, result, first)
        return result

    return call


class Hooks:
    """They are in place from `start` to `stop`. `around` is how they stand beside what TensorFlow calls.

    The native part, where there is one, does itself what recurs many times a step.
    """

    def __init__(self, teller: Teller, around: Callable[..., Any], sessions: Sessions, core: Any = None) -> None:
        self._teller = teller
        self._around = around
        self._core = core
        self._sessions = sessions
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
        converted, initialized = self._safely(self._converted), self._safely(self._initialized)
        if self._core is not None:
            input_, constant = (KINDS.index(kind) + 1 for kind in ("input", "constant"))
            converted = self._core.after_conversion(numpy.ndarray, input_, constant)
            initialized = self._core.after_making(initialized)
        self._beside(constant_op, "convert_to_eager_tensor", None, converted)
        self._beside(BaseResourceVariable, "__init__", None, initialized)
        self._beside(backprop.GradientTape, "gradient", None, self._safely(self._differentiated))
        for name in RUNS:
            self.patch(pywrap_tf_session, name, self._around_run)
        imports.when_imported("keras", self._watch_keras)

    def _around_run(self, original: Any) -> Any:
        take = self._safely(lambda returned, result, fed: self._sessions.take(fed))
        give = self._safely(self._sessions.give)
        return self._around(original, lambda fed: take(True, None, fed), give, FED)

    def _watch_keras(self, name: str) -> None:
        from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
        from keras.src.callbacks.callback_list import CallbackList
        from keras.src.optimizers.base_optimizer import BaseOptimizer

        if not self._on:
            return
        safely = self._safely
        self._beside(TensorFlowTrainer, "fit", self._enter("loop"), safely(self._leave("loop")))
        self._beside(TensorFlowTrainer, "train_on_batch", self._enter("loop"), safely(self._trained))
        self._beside(CallbackList, "on_train_batch_end", None, safely(self._ended_batch))
        self._beside(BaseOptimizer, "apply", self._enter("optimizer"), safely(self._applied))
        for adding in ("add_variable_from_reference", "add_variable"):
            self._beside(BaseOptimizer, adding, self._enter("state"), safely(self._leave("state")))

    def _beside(self, owner: Any, name: str, before: Before | None, after: After) -> None:
        self.patch(owner, name, lambda original: self._around(original, before, after))

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

    def _safely(self, after: After) -> After:
        """What goes wrong in a recorder is no business of the user's code; the trace says it."""

        def call(returned: bool, result: Any, first: Any) -> None:
            if self._on:
                try:
                    after(returned, result, first)
                except Exception as error:  # noqa: BLE001
                    self._teller.trouble(error)

        return call

    # Births

    def _converted(self, returned: bool, tensor: Any, value: Any) -> None:
        if returned and tensor is not value:
            self._teller.born(tensor, "input" if isinstance(value, numpy.ndarray) else "constant")

    def _initialized(self, returned: bool, _: Any, variable: Any) -> None:
        if returned:
            self.made(variable)

    def made(self, variable: Any) -> None:
        """There is a variable."""
        is_state = getattr(self._inside, "state", 0)
        self._teller.variable(variable, "optimizer state" if is_state else "parameter" if variable.trainable else "")

    def _differentiated(self, returned: bool, found: Any, _: Any) -> None:
        for tensor in tf.nest.flatten(found) if returned else ():
            self._teller.is_a(tensor, "gradient")

    # Steps

    def _enter(self, what: str) -> Before:
        def enter(_: Any) -> None:
            setattr(self._inside, what, getattr(self._inside, what, 0) + 1)

        return enter

    def _leave(self, what: str) -> After:
        def leave(*_: Any) -> None:
            setattr(self._inside, what, max(getattr(self._inside, what, 0) - 1, 0))

        return leave

    def _trained(self, returned: bool, *_: Any) -> None:
        self._leave("loop")(returned, None, None)
        if returned:
            self._teller.stepped()

    def _ended_batch(self, returned: bool, *_: Any) -> None:
        if returned:
            self._teller.stepped()

    def _applied(self, returned: bool, _: Any, optimizer: Any) -> None:
        self._leave("optimizer")(returned, None, None)
        if returned and not self._inside.optimizer:
            self._look_at(id(optimizer))

    def _look_at(self, optimizer: int) -> None:
        if context.executing_eagerly():
            self.tick(("optimizer", optimizer))
            return
        graph = ops.get_default_graph()
        while getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is not None:
            graph = graph.outer_graph
        name = getattr(graph, "name", "")
        if name:
            self._teller.steps_in(name)

    def tick(self, what: object) -> None:
        """Something that recurs once a step has happened."""
        if not getattr(self._inside, "loop", 0):
            for _ in range(self._clock.tick(what)):
                self._teller.stepped()
