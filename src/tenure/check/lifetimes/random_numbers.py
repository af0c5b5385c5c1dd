"""Random numbers of NumPy and of Python: sizes that they give arrays differ from iteration to iteration."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Const, Num, Ref, Tensor, Value
from tenure.check.value_queries import inside, tensors

# What a random number counts through: it is not the key of something that grows. One of NumPy is no number of Python.
_PYTHON, _NUMPY = Ref("random"), Ref("numpy.random")
_PART = frozenset(["random", "element"])  # flags of one of several random numbers
_INTEGERS = frozenset(["integers", "randint", "randrange", "random_integers", "poisson", "geometric", "binomial"])
# Where the size is, of functions of a generator.
_SIZES = {
    "integers": 2, "randint": 2, "random_integers": 2, "normal": 2, "uniform": 2, "choice": 1, "random": 0, "standard_normal": 0,
    "poisson": 1, "geometric": 1, "binomial": 2, "gamma": 2, "exponential": 1, "permutation": 0,
}  # fmt: skip
_FEW = 8  # so many shapes are no reason to complain


def drawn(m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`rng.integers(5, 100)`, `rng.normal(size=(n, 3))`: a number or an array."""
    at = _SIZES.get(name)
    several = list(args) if name in ("rand", "randn") else args[at : at + 1] if at is not None else []
    size = [kwargs["size"]] if "size" in kwargs else several
    if name in _INTEGERS and not size:
        return integer(m, args, numpy=True)
    made = m.tensor("np", node)
    made.varies = differs(size)
    if name in _INTEGERS and not _few(args):
        made.flags |= {"random"}
    return made


def integer(m: Interpreter, args: list[Value], *, numpy: bool = False) -> Num:
    """A random integer: in a loop, another one in each iteration."""
    return Num(varies=bool(m.loops) and not _few(args), of=_NUMPY if numpy else _PYTHON)


def is_drawn(number: Num, *, numpy: bool = False) -> bool:
    """Whether a number is random, and of NumPy if that is asked."""
    return number.of is _NUMPY or (number.of is _PYTHON and not numpy)


def _few(args: list[Value]) -> bool:
    """Whether a random integer has few values: `randint(0, 3)`."""
    bounds = [one.value for one in args[:2] if isinstance(one, Const) and isinstance(one.value, (int, float))]
    return len(bounds) == len(args[:2]) > 0 and abs(bounds[-1] - (bounds[0] if len(bounds) > 1 else 0)) <= _FEW


def differs(values: Sequence[Value]) -> bool:
    """Whether a size has a part that differs from iteration to iteration."""
    parts = [part for value in values for part in inside(value)]
    return any((isinstance(one, Num) and one.varies) or (isinstance(one, Tensor) and is_one(one)) for one in parts)


def is_one(tensor: Tensor) -> bool:
    """Whether this is a random number that a loop has drawn or taken from several."""
    return bool(tensor.loops) and tensor.flags >= _PART


def of(result: Tensor, source: Tensor, name: str) -> None:
    """Note what a method of random numbers gives: some of them, or one."""
    if "random" not in source.flags:
        return
    if name in ("reshape", "astype", "copy", "ravel", "flatten", "sort"):
        result.flags |= {"random"}
    elif name in ("max", "min", "sum") and source.loops:
        result.flags |= _PART


def computed(result: Tensor, inputs: list[Tensor]) -> None:
    """Arithmetic of a random number and plain numbers gives another one."""
    if result.fw == "np" and inputs and all(is_one(one) for one in inputs):
        result.flags |= _PART


def number_of(args: list[Value]) -> bool:
    """Whether `int(n)` is another number in each iteration."""
    return any(is_one(one) for arg in args for one in tensors(arg))
