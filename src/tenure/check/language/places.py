"""Expressions that are only written to, iterated over or indexed."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Map, Obj, Value
from tenure.check.language import builtins
from tenure.check.language.attributes import attribute
from tenure.check.language.items import item
from tenure.check.lifetimes import container_reads
from tenure.check.lifetimes.container_reads import indexed
from tenure.check.value_queries import best


def place(m: Interpreter, node: ast.expr) -> Value:
    """Evaluate what is only written to, walked through or indexed, without a read of all that is in it."""
    if isinstance(node, ast.Name):
        m.visited.add(id(node))
        return m.lookup(node.id)
    if isinstance(node, ast.Attribute):
        m.visited.add(id(node))
        return attribute(m, m.evaluate(node.value), node.attr, node)
    if isinstance(node, ast.Subscript):
        owner = place(m, node.value)
        index = m.evaluate(node.slice)
        indexed(m, owner, index)
        return item(m, best(owner), index, node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "values"):
        held = _known(m, node.func.value)
        if not node.args and isinstance(held, Map) and container_reads.holds_lists(held):
            m.visited.add(id(node.func.value))
            return builtins.map_method(m, held, node.func.attr, [], {}, node)
    return m.evaluate(node)


def _known(m: Interpreter, node: ast.expr) -> Value | None:
    """What a name or an attribute of a named object holds, without evaluating anything."""
    if isinstance(node, ast.Name):
        return best(m.lookup(node.id))
    owner = (
        best(m.lookup(node.value.id)) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else None
    )
    held = owner.attrs.get(node.attr) if isinstance(owner, Obj) and isinstance(node, ast.Attribute) else None
    return best(held) if held is not None else None


def condition(m: Interpreter, node: ast.expr) -> Value:
    """Evaluate a condition: whether a container is empty is no read of what is in it."""
    return place(m, node) if isinstance(node, (ast.Name, ast.Attribute)) else m.evaluate(node)
