"""What is kept: one class per way in which a value outlives the iteration of a loop that created it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from tenure.check.abstract_values import Map, Obj, Seq, Spot, Tensor, Value, Wrapped
from tenure.check.syntax import Loop


@dataclass(slots=True, eq=False)
class Kept:
    """A value that something keeps: where it is stored, and the loop that it outlives."""

    spot: Spot
    loop: Loop | None


@dataclass(slots=True, eq=False)
class InContainer(Kept):
    """A tensor that is put into a container in a loop."""

    value: Tensor
    holder: Seq | Map


@dataclass(slots=True, eq=False)
class Graph(InContainer):
    """It may carry a graph. `written` has the expressions of what is stored, with their values."""

    written: Sequence[tuple[ast.expr, Tensor]] = ()
    inner: bool = False  # in a model's own code, whose lists become its result


@dataclass(slots=True, eq=False)
class ByHook(InContainer):
    """A hook of this kind does it."""

    hook: str


@dataclass(slots=True, eq=False)
class OnDevice(InContainer):
    """An array of JAX or TensorFlow, as part of `record`."""

    record: Value


class OfWorker(InContainer):
    """It comes from a worker process of a data loader."""


class Gradient(InContainer):
    """It is the gradient of another tensor."""


class View(InContainer):
    """It is a view of a larger buffer."""


class CacheEntry(InContainer):
    """The container is a dict that is used as a cache."""


@dataclass(slots=True, eq=False)
class SharedMemory(InContainer):
    """It shares memory with a buffer since `shared`."""

    shared: Spot
    clock: int


@dataclass(slots=True, eq=False)
class SameBuffer(InContainer):
    """Its buffer may be stored again in the next iteration."""

    clock: int


@dataclass(slots=True, eq=False)
class Captured(InContainer):
    """A function in the container closes over it."""


@dataclass(slots=True, eq=False)
class InGenerator(InContainer):
    """It is a variable of a generator in the container."""

    generator: Seq


@dataclass(slots=True, eq=False)
class Sum(Kept):
    """A tensor is added to a sum."""

    value: Tensor
    written: Sequence[tuple[ast.expr, Tensor]]


@dataclass(slots=True, eq=False)
class Carried(Kept):
    """A tensor is carried from iteration to iteration, by a name or by `holder`."""

    value: Tensor
    holder: object
    clock: int | None  # when the loop ended, if nothing outside repeats it
    forward: bool = False  # a forward pass does it, which training calls as well


@dataclass(slots=True, eq=False)
class Handle(Kept):
    """The handle of a hook that is registered in a loop."""

    value: Obj
    holder: Obj


@dataclass(slots=True, eq=False)
class Optimizer(Kept):
    """An optimizer that is put into a container in a loop."""

    value: Obj
    holder: Seq | Map
    stepped: bool


@dataclass(slots=True, eq=False)
class Weights(Kept):
    """A name for the live weights of a model: `best = model.state_dict()`."""

    value: Map
    clock: int


@dataclass(slots=True, eq=False)
class ModelAlias(Kept):
    """A second name for a model: `best = model`."""

    value: Obj
    clock: int


@dataclass(slots=True, eq=False)
class InFunctionCache(Kept):
    """An argument or a result of a function with `lru_cache`."""

    value: Obj | Tensor
    holder: Wrapped
