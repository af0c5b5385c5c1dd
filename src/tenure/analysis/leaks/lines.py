"""Which statements of the user's put things into a container, or a value into a name, as the source says it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from tenure import untrusted
from tenure.model import Site

_ADDING = ("append", "add", "extend", "insert", "appendleft", "update", "setdefault", "put", "put_nowait", "push")


@dataclass(frozen=True, slots=True)
class Store:
    """A statement that stores: where it is, how ("add", "set item", "set", "augment", "hook"), and of what.

    `value` is the source of what is stored or added, and `span` where it stands (lines and columns from 1), if it is
    one value that could be another; `loose` says that it needs parentheses before a method can be called on it.
    `uses_itself` says that the new value is made of the old one, by `+` or by a call (`call`).
    """

    site: Site
    how: str
    value: str = ""
    span: tuple[tuple[int, int], tuple[int, int]] | None = None
    loose: bool = False
    uses_itself: str = ""
    function: str = ""


def stores(files: Iterable[str], name: str) -> list[Store]:
    """The statements in these files that add to, or set, what goes by this name."""
    found: list[Store] = []
    for file in dict.fromkeys(files):
        found.extend(store for own, store in _all(file) if own == name)
    return found


def hooks(files: Iterable[str]) -> list[Store]:
    """The statements in these files that register hooks; `value` is what is registered."""
    found: list[Store] = []
    for file in dict.fromkeys(files):
        found.extend(store for own, store in _all(file) if own == "<hook>")
    return found


def calls(files: Iterable[str], method: str, argument: str) -> list[Site]:
    """Where a method is called with this keyword argument set true: `backward(retain_graph=True)`."""
    found = []
    for file in dict.fromkeys(files):
        for node in ast.walk(_tree(file)):
            if not isinstance(node, ast.Call) or _last(node.func) != method:
                continue
            if any(word.arg == argument and isinstance(word.value, ast.Constant) and word.value.value is True for word in node.keywords):  # fmt: skip
                found.append(Site(file, node.lineno))
    return found


def hook_functions(files: Iterable[str]) -> frozenset[str]:
    """Return the names of functions that these files register as hooks, and of those defined in a function that makes one."""
    files = list(dict.fromkeys(files))
    named = {word for hook in hooks(files) for word in re.findall(r"\w+", hook.value)}
    makers = (
        node
        for file in (files if named else ())
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.FunctionDef) and node.name in named
    )
    return frozenset(
        named | {inner.name for maker in makers for inner in ast.walk(maker) if isinstance(inner, ast.FunctionDef)}
    )


def mentions(file: str, name: str) -> bool:
    """Whether a file has this name, or functions without one."""
    if name == "<lambda>":
        return any(isinstance(node, ast.Lambda) for node in ast.walk(_tree(file)))
    return any(
        _is(node, name) or (isinstance(node, ast.FunctionDef) and node.name == name) for node in ast.walk(_tree(file))
    )


@lru_cache(64)
def _tree(file: str) -> ast.AST:
    try:
        return ast.parse("".join(untrusted.lines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@lru_cache(64)
def _all(file: str) -> tuple[tuple[str, Store], ...]:
    return tuple(_found(_tree(file), file, ""))


def _found(node: ast.AST, file: str, function: str) -> Iterator[tuple[str, Store]]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.stmt | ast.Call):
            yield from _statement(child, file, function)
        yield from _found(child, file, inside)


def _statement(node: ast.AST, file: str, function: str) -> Iterator[tuple[str, Store]]:
    site = Site(file, getattr(node, "lineno", 0), function)
    match node:
        case ast.Call(ast.Attribute(_, method), args) if method.startswith("register_") and "hook" in method and args:
            yield "<hook>", Store(site, "hook", ast.unparse(args[0]), function=function)
        case ast.Call(ast.Attribute(receiver, method), args) if method in _ADDING and args:
            yield _last(receiver), _store(site, "add", args[-1], function)
        case ast.Assign(targets, value):
            for target in targets:
                yield from _assigned(target, value, site, function)
        case ast.AnnAssign(target, _, value) if value is not None:
            yield from _assigned(target, value, site, function)
        case ast.AugAssign(target, _, value):
            yield _last(target), _store(site, "augment", value, function, "+")


def _assigned(target: ast.expr, value: ast.expr, site: Site, function: str) -> Iterator[tuple[str, Store]]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _assigned(one, value, site, function)
        return
    name = _last(target)
    if isinstance(target, ast.Subscript):
        yield name, _store(site, "set item", value, function)
    elif not isinstance(value, ast.Constant | ast.List | ast.Dict | ast.Set):  # that is how a container begins
        how = _itself(value, name)
        added = _added(value, name) if how == "+" else value
        yield name, _store(site, "set", added, function, how)


def _store(site: Site, how: str, value: ast.expr, function: str, itself: str = "") -> Store:
    tight = isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    loose = isinstance(value, ast.BinOp | ast.UnaryOp | ast.IfExp)
    span = None
    if (tight or loose) and value.end_lineno is not None and value.end_col_offset is not None:
        span = (value.lineno, value.col_offset + 1), (value.end_lineno, value.end_col_offset + 1)
    return Store(site, how, ast.unparse(value), span, loose, itself, function)


def _added(value: ast.expr, name: str) -> ast.expr:
    """What is added to the old value."""
    if isinstance(value, ast.BinOp):
        if _is(value.left, name):
            return value.right
        return value.left if _is(value.right, name) else _added(value.left, name)
    return value


def _itself(value: ast.expr, name: str) -> str:
    """How a value is made of what went by this name before: by `+`, by a call, or not."""
    if isinstance(value, ast.BinOp):
        return "+" if any(_is(side, name) for side in (value.left, value.right)) else _itself(value.left, name)
    if isinstance(value, ast.Call):
        return "call" if any(_is(inner, name) for one in value.args for inner in ast.walk(one)) else ""
    return ""


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and _last(node) == name


def _last(node: ast.AST) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
        case ast.Subscript(inner) | ast.Call(ast.Attribute(inner)) | ast.Starred(inner):
            return _last(inner)
    return ""
