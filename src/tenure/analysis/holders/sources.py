"""The line on which a module binds a name, found in the module's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from tenure import frames, untrusted
from tenure.model import Site

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def assignment(file: str | None, name: str) -> Site | None:
    """Return where a module, or a function that declares it global, binds `name`; None if not found.

    While the module's own code runs, that is the last place at or before its line, else the first of all.
    """
    if not file:
        return None
    lines = _bindings("".join(untrusted.lines(file))).get(name)
    if lines is None:
        return None
    running = _line_of_module(file)
    return Site(file, max((line for line in lines if running is not None and line <= running), default=min(lines)))


def _line_of_module(file: str) -> int | None:
    for frame in frames.running():
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename == file:
            return frame.f_lineno
    return None


@lru_cache(maxsize=16)
def _bindings(source: str) -> dict[str, list[int]]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # not Python: a notebook, a template
        return {}
    found: dict[str, list[int]] = {}
    for name, line in _names(tree, frozenset()):
        found.setdefault(name, []).append(line)
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
