"""What a program does with the values that it keeps: whether numbers would do, and whether it differentiates them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tenure.analysis.leaks import assignments, lines

# Functions that take a number, or a list of numbers, as well as a tensor with one element.
_NUMERIC = frozenset(
    "abs average float format fmean int len max mean median min print repr round sorted std str sum".split()  # noqa: SIM905
)
_OF_LISTS = frozenset(("append", "appendleft", "clear", "copy", "extend", "insert", "reverse", "get", "setdefault"))
_TORCH = frozenset(("torch", "tf", "jnp", "jax"))


def as_numbers(files: Iterable[str], name: str, keys: tuple[str, ...]) -> bool:
    """Return whether all that is done with what goes by this name can be done with Python numbers too."""
    return all(use in ("stored", "counted", "number") for use in _uses(files, name, keys))


def is_read(files: Iterable[str], name: str, keys: tuple[str, ...]) -> bool:
    """Return whether anything reads the values that are kept under this name."""
    return any(use not in ("stored", "counted") for use in _uses(files, name, keys))


def _uses(files: Iterable[str], name: str, keys: tuple[str, ...]) -> Iterator[str]:
    for file in dict.fromkeys(files):
        tree = lines.tree(file)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if lines.is_name(node, name) and isinstance(getattr(node, "ctx", None), ast.Load):
                yield _use(node, parents, name, keys)


def _use(node: ast.AST, parents: dict[ast.AST, ast.AST], name: str, keys: tuple[str, ...]) -> str:
    """Follow a value outwards through its expression, to what is done with it."""
    rest = list(keys)
    while True:
        outer = parents.get(node)
        match outer:
            case ast.Subscript(value, index) if value is node:
                if rest:
                    wanted = rest.pop(0)
                    if isinstance(index, ast.Constant) and wanted not in ("", f"[{index.value!r}]"):
                        return "stored"  # in another container next to it
                if isinstance(outer.ctx, ast.Store | ast.Del):
                    return "stored"
            case ast.Attribute(_, method):
                return "stored" if method in _OF_LISTS and isinstance(parents.get(outer), ast.Call) else "tensor"
            case ast.Call(function):
                called = assignments.dotted(function)
                if called == "len":
                    return "counted"
                if called.rpartition(".")[2] not in _NUMERIC or called.partition(".")[0] in _TORCH:
                    return "tensor"
            case ast.Assign(targets):
                return "stored" if any(lines.is_name(target, name) for target in targets) else "tensor"
            case ast.AugAssign(target):
                return "stored" if lines.is_name(target, name) else "tensor"
            case ast.FormattedValue() | ast.Compare() | ast.Expr():
                return "number"
            case ast.BinOp() | ast.UnaryOp() | ast.Starred() | ast.keyword():
                pass
            case _:
                return "tensor"
        node = outer


def is_differentiated(files: Iterable[str], name: str) -> bool:
    """Return whether what goes by this name is part of what these files call backward() on."""
    return any(name in _differentiated(lines.tree(file)) for file in dict.fromkeys(files))


def _differentiated(tree: ast.Module) -> set[str]:
    wanted = set[str]()
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    functions = {node.name: node for node in statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and assignments.last(node.func) in ("backward", "grad", "manual_backward"):
            wanted |= _words(node.func.value if isinstance(node.func, ast.Attribute) else node.func)
            wanted |= {word for argument in node.args for word in _words(argument)}
    bound = [({one.rpartition(".")[2] for one in assignments.bound(node)}, node) for node in statements]
    done = set[str]()
    while wanted - done:
        new = wanted - done
        done |= new
        for made, node in bound:
            if made & new:
                wanted |= {one.rpartition(".")[2] for one in assignments.read(node)} | set(_called(node))
        for called in new & set(functions):
            for inner in ast.walk(functions[called]):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    wanted |= _words(inner.value)
    return done - {"self", "backward", "torch", "autograd", "grad"}


def _words(node: ast.AST) -> set[str]:
    return {one.rpartition(".")[2] for one in assignments.names(node)}


def _called(node: ast.AST) -> Iterator[str]:
    """The functions that a statement calls by name. The `mean` of `x.square().mean()` is no function of the program."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and assignments.dotted(inner.func):
            yield assignments.last(inner.func)
