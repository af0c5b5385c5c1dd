"""What a shared variable asks of its framework."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tenure.errors import Unsupported


@dataclass(frozen=True, slots=True)
class Wanted:
    """A variable as it was asked for: its whole name, and what is known of it. `dtype` is the common name ("float32")."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str | None
    init: Any
    trainable: bool

    def whole_shape(self) -> tuple[int, ...]:
        """The shape, which a new variable must have from somewhere."""
        if self.shape is None:
            last = self.name.rpartition("/")[2]
            raise Unsupported(
                f"there is no {self.name!r} yet, and a new variable needs a shape, or an init that has one: "
                f"variable({last!r}, shape=(…)), variable({last!r}, init=tensor)"
            )
        return self.shape


class Maker(Protocol):
    """One framework's part. A dtype of None is the framework's own choice. All is called within `outside()`."""

    name: str

    def outside(self) -> AbstractContextManager[Any]:
        """Outside of the trace or mode that the user is in, for a variable outlives it."""

    def dtype(self, dtype: Any) -> str:
        """The common name of a dtype, given as the framework's own, as NumPy's, or by name. Raises TypeError."""

    def native(self, dtype: str | None) -> Any:
        """The framework's own dtype."""

    def is_float(self, dtype: str | None) -> bool:
        """Whether this dtype can be drawn at random and trained."""

    def named(self, init: str, shape: tuple[int, ...], dtype: str | None, name: str) -> Any:
        """A tensor of zeros or ones, or drawn from a standard normal or Glorot's uniform distribution."""

    def full(self, shape: tuple[int, ...], number: complex, dtype: str | None) -> Any:
        """A tensor of one number."""

    def called(self, init: Callable[..., Any], wanted: Wanted) -> Any:
        """What a function gives, called in the way in which the framework's own functions for that are called."""

    def own(self, value: Any, dtype: str | None) -> Any:
        """A tensor with this value (a tensor, nested lists, a number) and bytes of its own."""

    def variable(self, value: Any, name: str, *, trainable: bool) -> Any:
        """The framework's variable with this tensor as its value; the tensor itself where that is one already."""


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What a function takes; native code does not always tell, and is taken to want nothing."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def call(init: Callable[..., Any], wanted: Wanted, dtype: Any) -> Any:
    """Call a function that takes nothing, or a shape, or a shape and a dtype."""
    takes = parameters(init)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needs = any(one.default is one.empty and one.kind in positional for one in takes.values())
    if not needs and "shape" not in takes:
        return init()
    return init(wanted.whole_shape(), **({"dtype": dtype} if "dtype" in takes else {}))


def glorot(shape: tuple[int, ...]) -> float:
    """The bound of Glorot's uniform distribution, as TensorFlow reckons it: the last two sizes are in and out."""
    field = math.prod(shape[:-2])
    ins, outs = (shape[-2], shape[-1]) if len(shape) > 1 else (*shape, *shape, 1, 1)[:2]
    return math.sqrt(6 / max(field * (ins + outs), 1))
