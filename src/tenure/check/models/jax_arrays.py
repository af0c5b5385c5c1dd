"""Methods of JAX's arrays."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Num, Tensor, Value
from tenure.check.lifetimes import uses
from tenure.check.value_queries import tensors

# Methods of jax.Array, and those of `x.at[i]`, that give another array.
_ARRAYS = frozenset(
    ["add", "all", "any", "apply", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip",
     "compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "divide", "dot", "flatten", "get",
     "max", "mean", "min", "mod", "mul", "multiply", "nonzero", "power", "prod", "ptp", "ravel", "repeat", "reshape",
     "round", "searchsorted", "set", "sort", "squeeze", "std", "subtract", "sum", "swapaxes", "take", "to_device",
     "trace", "transpose", "var", "view"]
)  # fmt: skip


def method(
    m: Interpreter, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of an array, or of something that a traced function takes for one."""
    if name == "delete":
        uses.end(m, owner, "deleted", node)
        return NONE
    if name in ("is_deleted", "block_until_ready"):
        return owner if name != "is_deleted" else Num()
    if name in ("item", "tolist", "__float__"):
        uses.read_as_number(m, owner, node, f".{name}()")
        return Num()
    given = [*args, *kwargs.values()]
    uses.use(m, owner, node)
    for one in (part for value in given for part in tensors(value)):
        uses.use(m, one, node)
    if name not in _ARRAYS:
        return m.unknown_of([owner, *given], node)  # so it is no array, but an object that holds arrays
    made = m.tensor("jax", node, parents=[owner])
    made.trace = owner.trace or made.trace
    if name in ("sum", "mean", "max", "min", "prod", "std", "var") and not given:
        made.flags |= {"scalar"}
    if name == "copy":
        made.flags |= owner.flags & {"assumed"}
    return made
