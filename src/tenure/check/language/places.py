"""Expressions that are only written to, iterated over or indexed."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Value
from tenure.check.language.attributes import attribute
from tenure.check.language.items import item
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
    return m.evaluate(node)
