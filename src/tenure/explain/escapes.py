"""The statement through which a value got out of the function that made it, found in that function's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tenure.explain.flow import statements
from tenure.explain.source import (
    Function,
    Source,
    dotted,
    ends,
    first_line,
    last_line,
    name_of,
    names_in,
    targets_of,
)
from tenure.findings import Place

if TYPE_CHECKING:
    from tenure.explain.raised import Frame, Raised

How = Literal["attribute", "item", "method", "global", "nonlocal", "cache", "default", "yield", "call"]

# Methods that keep their argument.
_KEEPING = {
    "append", "appendleft", "add", "extend", "insert", "update", "setdefault", "put", "put_nowait", "push",
    "__setitem__", "setattr", "register_buffer", "write", "set",
}  # fmt: skip
_CACHES = ("lru_cache", "cache", "cached_property", "cachedmethod", "cached", "memoize")


@dataclass(frozen=True)
class Escape:
    """A statement that hands a value on to something outside of its function: `target` is what it is kept in."""

    source: Source
    node: ast.stmt
    target: str
    how: How
    value: ast.expr | None
    function: Function

    @property
    def place(self) -> Place:
        """Where it gets out."""
        return self.source.place("escape", self.node, name_of(self.function))

    @property
    def is_cache(self) -> bool:
        """Whether the value is kept for the next call: by a decorator, a default, a generator, or `if key not in X`."""
        if self.how in ("cache", "default", "yield"):
            return True
        target = self.target.rpartition(".")[2]
        for above in self.source.above(self.node):
            if isinstance(above, ast.If) and target in names_in(above.test) and _asks_for_absence(above.test):
                return not self._is_stored_besides(above)  # what is there already is changed: a running value
            if above is self.function:
                break
        return False

    def _is_stored_besides(self, first: ast.If) -> bool:
        """Return whether the function also stores to this target outside of the body of `first`."""
        inside = {id(part) for one in first.body for part in ast.walk(one)}
        others = escapes_of(self.source, self.function)
        return any(other.target == self.target and id(other.node) not in inside for other in others)


def find(raised: Raised, stack: tuple[Frame, ...]) -> Escape | None:
    """The likeliest escape of the value that was born with this stack, judged by names and by what the failing line uses."""
    used = used_names(raised)
    best: tuple[int, Escape] | None = None
    for depth, (source, function, line) in enumerate(_functions(raised, stack)):
        born = _bound_at(source, function, line) if line else set()
        for escape in escapes_of(source, function):
            score = _score(escape, used, born, line)
            if not stack and not _matches(escape, used):
                continue
            if stack:
                score -= 2 * depth
            if best is None or score > best[0]:
                best = (score, escape)
    return best[1] if best else None


def only_one_read_elsewhere(raised: Raised) -> Escape | None:
    """Return the statement that stores what another function computes with, if the sources have a single such place."""
    found: dict[str, Escape] = {}
    for source, function, _ in _functions(raised, ()):
        for escape in escapes_of(source, function):
            if escape.how in ("attribute", "global", "nonlocal") and isinstance(
                escape.value, ast.Call | ast.BinOp | ast.Compare
            ):
                name = escape.target.rpartition(".")[2]
                others = (one for one in source.functions if one is not function and not isinstance(one, ast.Module))
                if any(_reads(other, name) for other in others):
                    found.setdefault(escape.target, escape)
    return next(iter(found.values())) if len(found) == 1 else None


def _reads(function: Function, name: str) -> bool:
    return any(
        isinstance(node, ast.Attribute | ast.Name)
        and isinstance(node.ctx, ast.Load)
        and getattr(node, "attr", getattr(node, "id", "")) == name
        for node in ast.walk(function)
    )


def _functions(raised: Raised, stack: tuple[Frame, ...]) -> Iterator[tuple[Source, Function, int]]:
    """The functions to look into, with the line of the birth where it is known: innermost first."""
    if stack:
        for frame in reversed(stack[-6:]):
            source = raised.source(frame)
            if source is not None:
                function = source.function(frame.line)
                if not isinstance(function, ast.Module):
                    yield source, function, frame.line
        return
    for source in raised.sources:
        for function in source.functions:
            if name_of(function) != "__init__":
                yield source, function, 0


def escapes_of(source: Source, function: Function) -> Iterator[Escape]:
    """The statements of one function that hand something on to the outside."""
    if isinstance(function, ast.Lambda | ast.Module):
        return
    outer = _outer_names(function)
    own = _own_names(function) - outer
    defaults = _mutable_defaults(function)
    if any(ends(dotted(decorator), _CACHES) for decorator in function.decorator_list):
        for node in statements(function):
            if isinstance(node, ast.Return) and node.value is not None:
                yield Escape(source, node, name_of(function), "cache", node.value, function)
    for node in statements(function):
        for target in targets_of(node) if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) else ():
            value = node.value  # type: ignore[attr-defined]
            root = dotted(target).partition(".")[0]
            if isinstance(target, ast.Name):
                if target.id in outer:
                    yield Escape(source, node, target.id, _declared(function, target.id), value, function)
            elif root and root not in own:
                how: How = "attribute" if isinstance(target, ast.Attribute) else "item"
                yield Escape(source, node, dotted(target), "default" if root in defaults else how, value, function)
        for call in _calls(node):
            kept = _kept(call, own, defaults)
            if kept is not None:
                yield Escape(source, node, kept[0], kept[1], kept[2], function)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield) and node.value.value is not None:
            yield Escape(source, node, name_of(function), "yield", node.value.value, function)


def _kept(call: ast.Call, own: set[str], defaults: set[str]) -> tuple[str, How, ast.expr] | None:
    """What a call keeps its last argument in."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not arguments or not isinstance(call.func, ast.Attribute):
        if isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) == 3:
            return dotted(call.args[0]), "attribute", call.args[2]
        return None
    root = dotted(call.func).partition(".")[0]
    if not root or root in own:
        return None
    keeper = dotted(call.func.value)
    if call.func.attr in _KEEPING:
        return keeper, "default" if root in defaults else "method", arguments[-1]
    return None


def _calls(node: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a statement, but not those of statements inside it."""
    if isinstance(node, ast.Expr):
        yield from (part for part in ast.walk(node) if isinstance(part, ast.Call))


def _score(escape: Escape, used: set[str], born: set[str], line: int) -> int:
    score = 0
    value = names_in(escape.value) if escape.value is not None else set()
    if _matches(escape, used):
        score += 6
    if line and first_line(escape.node) <= line <= last_line(escape.node):
        score += 5
    if born & value:
        score += 5
    if escape.is_cache:
        score += 1
    # A counter or a list of names is no tensor.
    if isinstance(escape.value, ast.Constant) or (isinstance(escape.value, ast.List | ast.Dict) and not value):
        score -= 8
    return score


def _matches(escape: Escape, used: set[str]) -> bool:
    """Whether the failing line uses what the value is kept in."""
    parts = [part for part in escape.target.split(".") if part not in ("self", "cls")]
    return any(part in used for part in parts[-2:])


def used_names(raised: Raised) -> set[str]:
    """The names in the failing statements, and in what those were last bound to."""
    found: set[str] = set()
    for frame in raised.user[-3:]:
        source = raised.source(frame)
        statement = source.statement(frame.line) if source else None
        if source is None or statement is None:
            continue
        names = _shallow_names(statement)
        function = source.function(frame.line)
        for node in statements(function):
            if first_line(node) <= frame.line:
                bound = {dotted(target) for target in targets_of(node)}
                if bound & names:
                    value = getattr(node, "value", None) or getattr(node, "iter", None)
                    names |= names_in(value)
        found |= names
    return found - _COMMON


_COMMON = {
    "self",
    "cls",
    "np",
    "tf",
    "jnp",
    "jax",
    "torch",
    "nn",
    "F",
    "range",
    "len",
    "print",
    "float",
    "int",
    "items",
}


def _shallow_names(statement: ast.stmt) -> set[str]:
    """The names of a statement; of a loop or a `with`, only those of its head."""
    body = getattr(statement, "body", None)
    if not body:
        return names_in(statement)
    found: set[str] = set()
    for name, value in ast.iter_fields(statement):
        if name in ("body", "orelse", "finalbody", "handlers"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                found |= names_in(part)
    return found


def _outer_names(function: Function) -> set[str]:
    found: set[str] = set()
    for node in statements(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            found |= set(node.names)
    return found


def _own_names(function: Function) -> set[str]:
    """The names that the function binds itself, arguments not counted: those came from outside."""
    return {target.id for node in statements(function) for target in targets_of(node) if isinstance(target, ast.Name)}


def _declared(function: Function, name: str) -> How:
    is_global = any(isinstance(node, ast.Global) and name in node.names for node in statements(function))
    return "global" if is_global else "nonlocal"


def _mutable_defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = [
        *zip(reversed(positional), reversed(spec.defaults), strict=False),
        *zip(spec.kwonlyargs, spec.kw_defaults, strict=True),
    ]
    return {
        argument.arg
        for argument, default in pairs
        if isinstance(default, ast.List | ast.Dict | ast.Set) or (isinstance(default, ast.Call) and not default.args)
    }


def _bound_at(source: Source, function: Function, line: int) -> set[str]:
    """The names that the statement at the birth binds."""
    statement = source.statement(line)
    return {dotted(target).rpartition(".")[2] for target in targets_of(statement)} if statement else set()


def _asks_for_absence(test: ast.expr) -> bool:
    """`key not in X`, `X is None`, `not X`, `not hasattr(…)`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return True
    if isinstance(test, ast.BoolOp):
        return any(_asks_for_absence(value) for value in test.values)
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotIn | ast.Is | ast.Eq)
