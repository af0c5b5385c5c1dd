"""Parts of tensors: which are views of a buffer, and which are small ones."""

from __future__ import annotations

import ast

from tenure.check.machine import Machine
from tenure.check.using import read_as_number, use
from tenure.check.values import NONE, Const, Num, Ref, Seq, Tensor, Value, best

_FEW_ROWS = 4
GROWING = Ref("slice")  # `x[:n]`, of an n that differs from turn to turn


def index(m: Machine, owner: Tensor, key: Value, node: ast.AST) -> Value:
    """`tensor[key]`."""
    if owner.fw is None:
        made = m.unknown(node)
        made.flags = owner.flags & {"worker"}
        return made
    use(m, owner, node)
    parts = best(key).items if isinstance(best(key), Seq) else [key]  # type: ignore[attr-defined]
    advanced = any(isinstance(best(p), (Tensor, Seq)) for p in parts)
    kinds = [best(p) for p in parts]
    changed = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "at"
    for one in kinds if owner.fw == "jax" and not changed else ():
        if isinstance(one, Tensor) and one.state.get("mask"):
            read_as_number(m, one, node, "a boolean index")
    sliced = any((isinstance(k, Ref) and k.name == "slice") or isinstance(k, (Const, Num)) for k in kinds)
    part = sliced and not advanced
    made = m.tensor(owner.fw, node, op="index", parents=[owner], store=owner.store if part else None, view=part)
    made.trace = owner.trace or made.trace
    made.place = owner.place
    made.flags = owner.flags & {"inference", "worker", "keras"}
    made.varies = made.varies or (not changed and any(k is GROWING for k in kinds))
    made.state["base"] = owner
    made.state["of leaf"] = part and m.grad[-1] == "grad" and (owner.leaf or owner.state.get("of leaf"))
    made.state["small"] = part and isinstance(node, ast.Subscript) and (_is_small(node.slice) or _is_row(owner, kinds))
    small_part(made, owner)
    return made


def small_part(made: Tensor, source: Tensor) -> None:
    """A view of a small part is one, too."""
    if source.state.get("small") and made.store is source.store and not made.state.get("small"):
        made.state["small"], made.state["base"] = True, source.state["base"]


def has_rows(made: Tensor, shape: list[Value]) -> None:
    """Note the size of the first of several dimensions, where it is written."""
    first = best(shape[0]) if shape else NONE
    sizes = first.items if isinstance(first, Seq) else shape
    if len(sizes) > 1 and isinstance(sizes[0], Const) and isinstance(sizes[0].value, int):
        made.state["rows"] = sizes[0].value


def same_rows(made: Tensor, source: Tensor) -> None:
    """An operation that works row by row."""
    if "rows" in source.state:
        made.state["rows"] = source.state["rows"]


def _is_row(owner: Tensor, key: list[Value]) -> bool:
    """Whether this is one of many rows: `x[0]`, of an x that is known to have many."""
    one = isinstance(key[0], Const) and isinstance(key[0].value, int) and not isinstance(key[0].value, bool)
    return bool(one and owner.state.get("rows", 0) > _FEW_ROWS)


def _is_small(key: ast.expr) -> bool:
    """Whether an index surely leaves most of the buffer unused: bounds, or one of a later dimension."""
    parts = key.elts if isinstance(key, ast.Tuple) else [key]
    bounds = any(isinstance(p, ast.Slice) and (p.lower is not None or p.upper is not None) for p in parts)
    return bounds or any(
        not isinstance(p, ast.Slice) and not (isinstance(p, ast.Constant) and p.value in (None, ...)) for p in parts[1:]
    )
