"""Trees of arrays: functions that map over them, list their leaves or copy them to the host."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Const, Func, Map, Seq, Tensor, Value
from tenure.check.language import iteration
from tenure.check.models import symbols
from tenure.check.value_queries import best, tensors


def tree_map(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    """`tree.map(f, tree, …)`: the function is called with one leaf of each tree."""
    if len(args) < 2:
        return m.unknown(node)
    trees = args[1:]
    leaf = [next(iter(tensors(tree)), None) or m.unknown(node) for tree in trees]
    same = _copy_function(args[0])
    mapped = m.call(args[0], list(leaf), {}, node)
    if mapped is leaf[0] and len(trees) == 1 and isinstance(best(args[0]), Func):
        same = "alias"  # `lambda x: x` copies nothing
    if isinstance(mapped, Const) and len(trees) == 1:
        for one in tensors(trees[0])[:8]:
            if one is not leaf[0]:
                m.call(args[0], [one], {}, node)
    return _rebuilt(m, trees[0], mapped, node, same=same)


def _copy_function(function: Value) -> str:
    name = getattr(best(function), "name", "")
    return "alias" if name == "jax.numpy.asarray" else "new"


def _rebuilt(m: Interpreter, tree: Value, leaf: Value, node: ast.AST, *, same: str, depth: int = 0) -> Value:
    tree = best(tree)
    if isinstance(tree, Map) and depth < 4:
        made: Map = m.own(Map(m.spot(node)))
        made.attrs = {k: _rebuilt(m, v, leaf, node, same=same, depth=depth + 1) for k, v in tree.attrs.items()}
        made.rest = _rebuilt(m, tree.rest, leaf, node, same=same, depth=depth + 1) if tree.rest is not None else None
        return made
    if isinstance(tree, Seq) and depth < 4:
        copied = m.seq(tree.kind, [_rebuilt(m, v, leaf, node, same=same, depth=depth + 1) for v in tree.items], node)
        copied.rest = _rebuilt(m, tree.rest, leaf, node, same=same, depth=depth + 1) if tree.rest is not None else None
        return copied
    if isinstance(tree, Tensor):
        if same == "alias":
            return tree
        if isinstance(best(leaf), Tensor):
            return iteration.fresh(m, leaf, node)
        return leaf if tree.fw is not None else m.unknown_of([tree], node)
    return leaf if depth else m.unknown(node)


def leaves(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    """`tree.leaves(tree)`."""
    found: list[Value] = list(tensors(args[0])[:8]) if args else []
    made = m.seq("list", found, node)
    if not found or any(isinstance(t, Tensor) and t.fw is None for t in found):
        made.rest = m.unknown(node)
    return made


def host(m: Interpreter, value: Value, node: ast.AST) -> Value:
    """`device_get(tree)`: the same tree of NumPy arrays."""
    return m.tensor("np", node) if isinstance(best(value), Tensor) else symbols.concrete(m, value, "np", node)
