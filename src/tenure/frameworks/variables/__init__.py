"""The variables of each framework: what its users call one, and its first value from a number, a name, a function, data."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, cast

from tenure import frameworks
from tenure.errors import Unsupported
from tenure.frameworks import exchange
from tenure.frameworks.variables.base import Maker, Wanted

NAMES = ("torch", "tensorflow", "jax")
INITS = ("zeros", "ones", "normal", "glorot")


def maker(name: str) -> Maker:
    """A framework's part; it is imported if it is not yet."""
    if name not in NAMES:
        raise Unsupported(f"{name!r} has no variables that tenure knows; framework is one of {', '.join(NAMES)}")
    if name not in sys.modules:
        try:
            importlib.import_module(name)
        except ImportError:
            raise Unsupported(f"{name} is not installed here") from None
    return cast("Maker", importlib.import_module(f"tenure.frameworks.variables.{name}").MAKER)


def imported() -> list[str]:
    """The frameworks with variables that the user has imported."""
    return [name for name in NAMES if name in sys.modules]


def graph() -> Any:
    """The TensorFlow graph that is being built, in which a variable has no value but in sessions; None if none is."""
    if not any(framework.name == "tensorflow" for framework in frameworks.awake()):
        return None
    return importlib.import_module("tenure.frameworks.variables.tensorflow").graph()


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as `torch.compile` leaves it alone: a graph takes the variable, not the way to it."""
    if "torch._dynamo" not in sys.modules:
        return function
    return cast("Callable[..., Any]", importlib.import_module("tenure.frameworks.variables.torch").uncompiled(function))


def first_value(maker: Maker, wanted: Wanted) -> Any:
    """The tensor that a new variable starts with: of the framework, with bytes of its own.

    Raises:
        Unsupported: `init` gives none, or one of another shape.
    """
    init, shape, dtype = wanted.init, wanted.shape, wanted.dtype
    if init is None:
        init = "glorot" if maker.is_float(dtype) else "zeros"
    if isinstance(init, str):
        if init not in INITS:
            raise Unsupported(
                f"init={init!r} is not a first value; use one of {', '.join(INITS)}, or a function, a number, a tensor"
            )
        return maker.named(init, wanted.whole_shape(), dtype, wanted.name)
    if isinstance(init, bool | int | float | complex) and shape is not None:
        return maker.full(shape, init, dtype)
    made = maker.called(init, wanted) if callable(init) and frameworks.owner(init) is None else init
    owner = frameworks.owner(made)
    try:
        if owner is not None and owner.name not in (maker.name, "numpy"):  # NumPy's arrays are read by all
            made = exchange.into(made, maker.name).tensor
        value = maker.own(made, dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        told = str(error).partition("\n")[0]
        raise Unsupported(f"{maker.name} cannot make a tensor of {made!r:.60} for {wanted.name!r}: {told}") from error
    found = tuple(value.shape)
    if shape is not None and found != shape:
        raise Unsupported(f"{wanted.name!r} must have the shape {list(shape)}, but its init returns {list(found)}")
    return value
