"""The TensorFlow adapter. An eager tensor cannot be emptied under its handle; a variable can."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy
import tensorflow as tf
from tensorflow.python.autograph.core import config as autograph
from tensorflow.python.framework import ops
from tensorflow.python.framework.tensor import Tensor
from tensorflow.python.ops import gen_resource_variable_ops
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

from tenure import heap, sites
from tenure.errors import epitaph, released
from tenure.frameworks import ended, host
from tenure.frameworks.base import Buffer, Inner
from tenure.model import State, TensorInfo

Eager: Any = ops.EagerTensor


class Tensorflow:
    """TensorFlow's part of the Framework protocol."""

    name = "tensorflow"
    passes_errors = False

    def owns(self, kind: type) -> bool:
        """Eager and symbolic tensors, variables, and Keras's symbolic tensors."""
        return issubclass(kind, Tensor | BaseResourceVariable) or issubclass(kind, _keras_tensor())

    def info(self, tensor: Any) -> TensorInfo:
        """The description of an eager or symbolic tensor, or of a variable."""
        buried = ended.find(tensor)
        if buried is not None:
            return buried
        shape = _shape(tensor)
        dtype = getattr(tensor.dtype, "name", str(tensor.dtype))
        kind = "variable" if isinstance(tensor, BaseResourceVariable) else "tensor"
        state = _state(tensor)
        nbytes = 0
        if state == "live" and not tensor.dtype.is_numpy_compatible:
            nbytes = 0
        elif state == "live":
            nbytes = tensor.dtype.size
            for count in shape:
                nbytes *= count or 0
        return TensorInfo("tensorflow", shape, dtype, _device(tensor), nbytes, state, kind=kind)

    def buffers(self, tensor: Any) -> list[Buffer]:
        """The host memory behind an eager tensor or a variable, known by its address."""
        if isinstance(tensor, EndedVariable) or not is_made(tensor) or _state(tensor) != "live":
            return []
        info = self.info(tensor)
        value, carrier = tensor, weakref.ref(tensor)
        if isinstance(tensor, BaseResourceVariable):
            if not tensor.is_initialized():
                return []
            # The variable's handle, which a traced function may have captured, leads to the bytes.
            value, carrier = tensor.value(), weakref.ref(tensor.handle)
        start = _address(value) if info.nbytes else None
        place = host.span(info.device, start, info.nbytes) if start is not None else None
        key = ("tensorflow", start if start is not None else id(tensor), info.nbytes)
        return [Buffer(key, info.nbytes, info.device, lambda: carrier() is None, place, shared=True)]

    def refusal(self, tensor: Any) -> str:
        """Eager tensors are immutable, symbolic ones belong to their graph."""
        if isinstance(tensor, BaseResourceVariable):
            if type(tensor) is not ResourceVariable:
                return f"a {type(tensor).__name__} stores its value where tenure cannot reach it"
            return (
                ""
                if _is_eager(tensor.handle)
                else "it belongs to a graph: the session that runs the graph owns its memory"
            )
        if isinstance(tensor, Eager):
            return (
                "TensorFlow cannot free an eager tensor that still has a Python handle; delete the last "
                "reference, or wrap it with `tenure.own(x)`"
            )
        return "it is symbolic: it has no bytes, and belongs to the graph that created it"

    def sole(self, tensors: list[Any]) -> dict[object, bool | None]:
        """Unknown: TensorFlow counts references to a buffer, but does not tell."""
        return {buffer.key: None for tensor in tensors for buffer in self.buffers(tensor)}

    def end(self, tensors: list[Any], notice: Callable[[Any], TensorInfo]) -> list[tuple[Any, str]]:
        """Put a tombstone into each variable: a handle that names what was there and leads nowhere."""
        _teach()
        for variable in tensors:
            info = notice(variable)
            ended.bury(variable, info)
            tomb = f"{epitaph(info)[:-1]} (no. {next(_numbers)})>"
            _tombs[tomb] = info
            weakref.finalize(variable, _tombs.pop, tomb).atexit = False
            with tf.init_scope():
                variable._handle = gen_resource_variable_ops.var_handle_op(
                    dtype=variable.dtype, shape=variable.shape, shared_name=tomb, container="tenure"
                )
            variable.__class__ = EndedVariable
        return []

    def prepare(self, hidden: Callable[[Any], AbstractContextManager[None]]) -> None:
        """Nothing: weak references do not matter to it."""

    def births(self) -> Iterable[tuple[type, None]]:
        """Eager tensors; variables are never claimed."""
        return ((Eager, None),)

    def exempt(self, tensors: list[Any]) -> set[int]:
        """Handles of variables: resources are not data."""
        return {id(tensor) for tensor in tensors if tensor.dtype in (tf.resource, tf.variant)}

    def live(self) -> Iterator[Any]:
        """Every eager tensor and variable that the garbage collector knows."""
        for thing in heap.instances({Eager, ResourceVariable}):
            if is_made(thing) and thing.dtype not in (tf.resource, tf.variant):
                yield thing

    def inner(self, tensor: Any) -> list[Inner]:
        """Nothing that TensorFlow would tell."""
        return []


class EndedVariable(ResourceVariable):  # type: ignore[misc]
    """What a disposed variable becomes: its metadata stays, its data is refused.

    Only methods that lead to data are replaced. TensorFlow's C++ reads attributes of variables and crashes if that
    raises, so those stay, and lead to the tombstone.
    """

    @property
    def handle(self) -> Any:
        """Refused: a gradient with respect to the tombstone would silently be None."""
        raise ended.complain(self, ".handle", sites.here())

    @property
    def device(self) -> Any:
        """Where it was."""
        return self._handle.device

    def __repr__(self) -> str:
        """Say what it was and how it ended."""
        info = ended.find(self)
        return epitaph(info) if info is not None else "<released variable>"

    def __str__(self) -> str:
        """Say what it was and how it ended."""
        return repr(self)

    def __format__(self, spec: str) -> str:
        """Say what it was and how it ended."""
        return repr(self)


def _refusing(name: str) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise ended.complain(self, f"{name}()", sites.here())

    return refuse


_DATA = (
    "value read_value read_value_no_copy numpy sparse_read gather_nd assign assign_add assign_sub scatter_add "
    "scatter_sub scatter_max scatter_min scatter_mul scatter_div scatter_update batch_scatter_update scatter_nd_add "
    "scatter_nd_sub scatter_nd_update scatter_nd_max scatter_nd_min eval initialized_value is_initialized "
    "count_up_to to_proto load __array__ __tf_tensor__ __deepcopy__ __reduce__ __complex__ __int__ __float__ __bool__ "
    "__nonzero__ __iter__ _dense_var_to_tensor _read_variable_op"
)
for _name in _DATA.split():
    if hasattr(ResourceVariable, _name):
        setattr(EndedVariable, _name, _refusing(_name))

_tombs: dict[str, TensorInfo] = {}
_numbers = itertools.count(1)


def _teach() -> None:
    """Let errors about a tombstone, which C++ raises, say what tenure knows."""
    original = ops.raise_from_not_ok_status
    if hasattr(original, "tenure"):
        return

    def raise_from_not_ok_status(error: Any, name: str | None) -> Any:
        text = str(getattr(error, "message", error))
        if "<released " in text:
            info = next((info for tomb, info in _tombs.items() if tomb in text), None)
            if info is not None:
                raise released(info, "an operation", sites.here()) from None
        return original(error, name)

    raise_from_not_ok_status.tenure = True  # type: ignore[attr-defined]
    ops.raise_from_not_ok_status = raise_from_not_ok_status


def _keras_tensor() -> type | tuple[type, ...]:
    module: Any = sys.modules.get("keras.src.backend.common.keras_tensor")
    return () if module is None else module.KerasTensor


def _shape(tensor: Any) -> tuple[int | None, ...]:
    if isinstance(tensor.shape, tuple):
        return tensor.shape
    return tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else (None,)


def is_made(thing: Any) -> bool:
    """Whether it is complete: not a variable whose creation failed half-way, not an eager tensor still in creation.

    An exception may still hold the first; the second is seen where TensorFlow's C++ calls Python, or another thread runs.
    """
    if isinstance(thing, Eager):
        try:
            thing._shape_tuple()
        except tf.errors.InvalidArgumentError:  # "Invalid handle"
            return False
    return not isinstance(thing, ResourceVariable) or "_handle" in vars(thing)


def _is_eager(tensor: Any) -> bool:
    return isinstance(tensor, Eager)


def _state(tensor: Any) -> State:
    if isinstance(tensor, Eager):
        return "live"
    if isinstance(tensor, EndedVariable):
        return "disposed"
    if isinstance(tensor, BaseResourceVariable):
        return "live" if _is_eager(tensor.handle) else "symbolic"
    graph: Any = getattr(tensor, "graph", None)
    current: Any = ops.get_default_graph() if graph is not None else None
    while current is not None and graph is not None:
        if current is graph:
            return "symbolic"
        current = getattr(current, "outer_graph", None)
    # A function's graph is closed to others once it is built; a plain graph can still be run by a session.
    return "out-of-scope" if type(graph).__name__ == "FuncGraph" else "symbolic"


def _device(tensor: Any) -> str:
    name = getattr(tensor, "device", "") or "graph"
    return name.rpartition("device:")[2] or name


def _address(tensor: Any) -> int | None:
    if "CPU" not in (tensor.backing_device or "") or tensor.dtype in (tf.string, tf.resource, tf.variant):
        return None
    value = tensor._numpy()
    if not isinstance(value, numpy.ndarray):
        try:
            value = numpy.asarray(memoryview(tensor))  # of a scalar `_numpy` gives a copy
        except (TypeError, ValueError, BufferError):
            return None  # a format NumPy does not know
    return int(value.__array_interface__["data"][0])


# AutoGraph rewrites what a tf.function calls; tenure's code is not for graphs.
autograph.CONVERSION_RULES = (autograph.DoNotConvert("tenure"), *autograph.CONVERSION_RULES)

ADAPTER = Tensorflow()
