"""Parts of tensors: which are views of a buffer, and which are small ones."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Num, Ref, Seq, Tensor, Value
from tenure.check.lifetimes.uses import read_as_number, use
from tenure.check.value_queries import best

_FEW_ROWS = 4
GROWING = Ref("slice")  # `x[:n]`, of an n that differs from turn to turn


def index(m: Interpreter, owner: Tensor, key: Value, node: ast.AST) -> Value:
    """`tensor[key]`."""
    if owner.fw is None:
        made = m.unknown_of([owner], node)
        made.flags = owner.flags & {"worker"}
        return made
    use(m, owner, node)
    parts = best(key).items if isinstance(best(key), Seq) else [key]  # type: ignore[attr-defined]
    advanced = any(isinstance(best(p), (Tensor, Seq)) for p in parts)
    kinds = [best(p) for p in parts]
    changed = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "at"
    for one in kinds if owner.fw == "jax" and not changed else ():
        if isinstance(one, Tensor) and one.state.mask:
            read_as_number(m, one, node, "a boolean index")
    sliced = any((isinstance(k, Ref) and k.name == "slice") or isinstance(k, (Const, Num)) for k in kinds)
    part = sliced and not advanced
    made = m.tensor(owner.fw, node, op="index", parents=[owner], store=owner.store if part else None, view=part)
    made.trace = owner.trace or made.trace
    made.place = owner.place
    made.flags = owner.flags & {"inference", "worker", "keras"}
    if isinstance(node, ast.Subscript) and not changed:
        made.varies = any(k is GROWING for k in kinds) or _length_varies(owner, kinds, node.slice)
    made.state.base = owner
    made.state.of_leaf = part and m.grad[-1] == "grad" and (owner.leaf or owner.state.of_leaf)
    small = part and isinstance(node, ast.Subscript) and (_is_small(node.slice) or _is_row(owner, kinds))
    made.state.small = small and not (owner.fw == "np" and _columns(node.slice))  # type: ignore[attr-defined]
    if owner.fw == "np" and owner.state.rows is None and not any(isinstance(k, Ref) for k in kinds):
        made.view = made.state.small = False  # perhaps a number, which NumPy copies
        made.flags |= {"perhaps number"}
    small_part(made, owner)
    return made


def _length_varies(owner: Tensor, kinds: list[Value], key: ast.expr) -> bool:
    """Whether a part differs in length because its source does: rows by number do not, nor does what bounds cut off."""
    first = key.elts[0] if isinstance(key, ast.Tuple) and key.elts else key
    rows = [one.varies for one in kinds if isinstance(one, Tensor)]
    if rows:
        return any(rows)
    whole = isinstance(first, ast.Slice) and _trims(first)
    return owner.varies and (whole or (isinstance(first, ast.Constant) and first.value in (None, ...)))


def small_part(made: Tensor, source: Tensor) -> None:
    """A view of a small part is one, too."""
    if source.state.small and made.store is source.store and not made.state.small:
        made.state.small, made.state.base = True, source.state.base


def has_rows(made: Tensor, shape: list[Value]) -> None:
    """Note the size of the first of several dimensions, where it is written."""
    first = best(shape[0]) if shape else NONE
    sizes = first.items if isinstance(first, Seq) else shape
    if len(sizes) > 1 and isinstance(sizes[0], Const) and isinstance(sizes[0].value, int):
        made.state.rows = sizes[0].value


def same_rows(made: Tensor, source: Tensor) -> None:
    """An operation that works row by row."""
    if source.state.rows is not None:
        made.state.rows = source.state.rows


def _is_row(owner: Tensor, key: list[Value]) -> bool:
    """Whether this is one of many rows: `x[0]`, of an x that is known to have many."""
    one = isinstance(key[0], Const) and isinstance(key[0].value, int) and not isinstance(key[0].value, bool)
    return bool(one and (owner.state.rows or 0) > _FEW_ROWS)


def _trims(part: ast.Slice) -> bool:
    """`x[1:]`, `x[25:-25]`: most of it stays."""
    upper = part.upper
    negative = (
        isinstance(upper, ast.UnaryOp) and isinstance(upper.op, ast.USub) and isinstance(upper.operand, ast.Constant)
    )
    lower = part.lower is None or isinstance(part.lower, ast.Constant)
    # `x[-n:]`, of an x that was filled up to n.
    last = isinstance(part.lower, ast.UnaryOp) and not isinstance(part.lower.operand, ast.Constant)
    return (lower or last) and (upper is None or negative)


def _columns(key: ast.expr) -> bool:
    """`table[:, :3]`: perhaps most of the columns."""
    parts = key.elts if isinstance(key, ast.Tuple) else []
    whole = [isinstance(p, ast.Slice) and p.lower is None and p.step is None for p in parts]
    return len(parts) == 2 and all(whole) and parts[0].upper is None and isinstance(parts[1].upper, ast.Constant)  # type: ignore[attr-defined]


def _is_small(key: ast.expr) -> bool:
    """Whether an index surely leaves most of the buffer unused: bounds, or one of a later dimension."""
    parts = key.elts if isinstance(key, ast.Tuple) else [key]
    bounds = any(
        isinstance(p, ast.Slice) and (p.lower is not None or p.upper is not None) and not _trims(p) for p in parts
    )
    return bounds or any(
        not isinstance(p, ast.Slice) and not (isinstance(p, ast.Constant) and p.value in (None, ...)) for p in parts[1:]
    )
