"""The line on which a module gives a name its value, found in the module's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from tenure import untrusted
from tenure.model import Site

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def assignment(file: str | None, name: str) -> Site | None:
    """Where `name` is first bound at module level, or by a function that declares it global; None if not found."""
    if not file:
        return None
    line = _bindings("".join(untrusted.lines(file))).get(name)
    return None if line is None else Site(file, line)


@lru_cache(maxsize=16)
def _bindings(source: str) -> dict[str, int]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # not Python: a notebook, a template
        return {}
    found: dict[str, int] = {}
    for name, line in _names(tree, frozenset()):
        found[name] = min(line, found.get(name, line))
    return found


def _names(node: ast.AST, inside: frozenset[str] | None) -> Iterator[tuple[str, int]]:
    """The names that `node` binds in the module; `inside` a function only those it declares global."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not inside:
            yield child.name, child.lineno
        if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            declared = {name for part in ast.walk(child) if isinstance(part, ast.Global) for name in part.names}
            if declared:
                yield from _names(child, frozenset(declared))
            continue
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store) and (not inside or child.id in inside):
            yield child.id, child.lineno
        elif isinstance(child, ast.alias) and not inside:
            yield (child.asname or child.name).partition(".")[0], child.lineno
        yield from _names(child, inside)


def class_line(file: str | None, qualname: str) -> Site | None:
    """Where a class is defined."""
    if not file:
        return None
    line = _classes("".join(untrusted.lines(file))).get(qualname.rpartition(".")[2])
    return None if line is None else Site(file, line)


@lru_cache(maxsize=16)
def _classes(source: str) -> dict[str, int]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    return {node.name: node.lineno for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
