"""Attributes that code empties which was not followed: what is in them may not stay."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from tenure.check import syntax
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Module
from tenure.check.kept import InContainer, Optimizer

TAKING = frozenset(["clear", "pop", "popleft", "popitem", "remove", "get", "get_nowait"])


def elsewhere(m: Interpreter, held: InContainer | Optimizer) -> bool:
    """Whether a function that was not followed empties or replaces the attribute that is stored into."""
    names = {_attribute(held.spot.node), *held.holder.state.attributes} - {""}
    return bool(names) and not names.isdisjoint(_emptied(m, held.spot.module))


def _attribute(node: Any) -> str:
    """`seen` of `self.seen.append(x)` and of `self.seen[key] = x`."""
    while node is not None and not isinstance(node, ast.Attribute):
        node = getattr(node, "func", None) or getattr(node, "target", None) or getattr(node, "value", None)
    if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Attribute, ast.Subscript)):
        inner = node.value if isinstance(node.value, ast.Attribute) else node.value.value
        node = inner if isinstance(inner, ast.Attribute) else node
    return node.attr if isinstance(node, ast.Attribute) else ""


def _emptied(m: Interpreter, module: Module) -> set[str]:
    known: dict[int, set[str]] = m.world.emptied
    if id(module) not in known:
        known[id(module)] = {name for one in _unfollowed(m, module) for name in _names(one)}
    return known[id(module)]


def _unfollowed(m: Interpreter, module: Module) -> Iterator[ast.AST]:
    """The functions that were not followed but may run: code names them, or a class inherits from a library's."""
    named = {getattr(one, "attr", getattr(one, "id", "")) for one in module.nodes}
    for one in module.nodes:
        inherited = isinstance(one, ast.ClassDef) and bool(one.bases)
        for part in syntax.children(one):
            function = isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            if function and id(part) not in m.seen_functions and (inherited or getattr(part, "name", "") in named):
                yield part


def _names(function: ast.AST) -> Iterator[str]:
    if getattr(function, "name", "") == "__init__":
        return
    for one in syntax.nodes(function):
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, (ast.Store, ast.Del)):
            yield one.attr
        elif isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Del) and isinstance(one.value, ast.Attribute):
            yield one.value.attr
        elif (
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Attribute)
            and one.func.attr in TAKING
            and isinstance(one.func.value, ast.Attribute)
        ):
            yield one.func.value.attr
