"""What the statements of one function bind and read, as dotted names: enough to follow a value to where it was created."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_INNER = (*_FUNCTIONS, ast.ClassDef)


def first_line(node: ast.AST) -> int:
    """Return where a node begins."""
    line: int = getattr(node, "lineno", 1)
    return line


def last_line(node: ast.AST) -> int:
    """Return where a node ends."""
    line: int | None = getattr(node, "end_lineno", None)
    return line or first_line(node)


def head(statement: ast.stmt) -> int:
    """Return the last line of a statement, or of a block's first part: `for x in y:`."""
    body = getattr(statement, "body", None)
    return body[0].lineno - 1 if isinstance(body, list) and body else last_line(statement)


def is_inside(scope: ast.AST, line: int) -> bool:
    """Return whether a function, or a file outside its functions, has this line."""
    if not isinstance(scope, ast.Module) and not first_line(scope) <= line <= last_line(scope):
        return False
    return not any(first_line(inner) <= line <= last_line(inner) for inner in _functions(scope))


@lru_cache(256)
def _functions(scope: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(node for node in ast.walk(scope) if isinstance(node, _FUNCTIONS) and node is not scope)


@lru_cache(256)
def bindings(scope: ast.AST) -> tuple[ast.stmt, ...]:
    """Return the statements of a function, not those of functions and classes inside it."""
    return tuple(_statements(getattr(scope, "body", ())))


def _statements(body: object) -> Iterator[ast.stmt]:
    for node in body if isinstance(body, list) else ():
        yield node
        if not isinstance(node, _INNER):
            for part in (*("body", "orelse", "finalbody"), *("handlers", "cases")):
                inner = getattr(node, part, ())
                for one in inner if isinstance(inner, list) else ():
                    yield from _statements([one]) if isinstance(one, ast.stmt) else _statements(one.body)


def bound(statement: ast.stmt) -> set[str]:
    """Return what a statement binds or adds to."""
    found: list[ast.expr] = []
    match statement:
        case ast.Assign(targets):
            found = list(targets)
        case ast.AugAssign(target) | ast.AnnAssign(target) | ast.For(target) | ast.AsyncFor(target):
            found = [target]
        case ast.With(items) | ast.AsyncWith(items):
            found = [item.optional_vars for item in items if item.optional_vars is not None]
        case ast.Expr(ast.Call(ast.Attribute(receiver))):
            found = [receiver]
    if not isinstance(statement, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith | ast.If | ast.While | ast.Try):
        found += [node.target for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)]
    flat = [
        part for target in found for part in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
    ]
    return {name for target in flat if (name := dotted(target))}


def read(statement: ast.stmt) -> set[str]:
    """Return what a statement computes its values from."""
    match statement:
        case ast.For(iter=value) | ast.AsyncFor(iter=value):
            return names(value)
        case ast.With(items) | ast.AsyncWith(items):
            return set().union(*(names(item.context_expr) for item in items))
        case ast.AugAssign(target, _, value):
            return names(value) | {dotted(target)}
        case ast.Assign(value=value):
            return names(value)
        case ast.AnnAssign(value=value) if value is not None:
            return names(value)
        case ast.Expr(value):
            return names(value)
    return set()


def names(value: ast.AST) -> set[str]:
    """Return the dotted names in an expression, each with the shorter ones that it begins with."""
    return {name for node in ast.walk(value) if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node))}


def dotted(node: ast.AST) -> str:
    """Return `self.h` for such an expression, `x` for `x[0]`, "" for anything else."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(inner, name):
            before = dotted(inner)
            return f"{before}.{name}" if before else ""
        case ast.Subscript(inner) | ast.Starred(inner):
            return dotted(inner)
    return ""


def last(node: ast.AST) -> str:
    """Return the last name of an expression: `history` of `self.history[0]`, also through calls of methods."""
    match node:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
        case ast.Subscript(inner) | ast.Call(ast.Attribute(inner)) | ast.Starred(inner):
            return last(inner)
    return ""
