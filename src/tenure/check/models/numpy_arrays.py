"""Methods of NumPy's arrays."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Num, Tensor, Value
from tenure.check.lifetimes import graphs, random_numbers, tensor_slices


def method(
    m: Interpreter, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of an array."""
    if name in ("item", "tolist", "argmax", "argmin"):
        return Num()
    if name in ("fill", "sort", "put", "partition", "resize"):
        graphs.written(m, owner.store, m.spot(node))
        return NONE
    view = name in ("reshape", "view", "transpose", "ravel", "squeeze", "swapaxes")
    made = m.tensor("np", node, store=owner.store if view else None, view=owner.view and view)
    made.varies = owner.varies and name in ("astype", "copy", "ravel", "flatten")
    random_numbers.of(made, owner, name)
    tensor_slices.small_part(made, owner)
    return made
