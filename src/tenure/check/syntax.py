"""Questions about the syntax tree alone: names that a function takes from outside, what a loop carries, how often it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NOTHING: set[str] = set()


@dataclass(slots=True)
class Loop:
    """A loop being followed, and its turn."""

    uid: int
    node: ast.AST
    turn: int = 0
    kind: str = "python"
    function: str = ""
    count: int | None = None  # how many iterations it has at most, where that is known


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly below a node, as `ast.iter_child_nodes` gives them, in half the time."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif type(value) is list:
            found.extend(one for one in value if isinstance(one, ast.AST))
    return found


def nodes(tree: ast.AST) -> list[ast.AST]:
    """A node and all below it, as `ast.walk` gives them, in half the time."""
    found = [tree]
    add = found.append
    for one in found:
        for name in one._fields:
            value = getattr(one, name, None)
            if isinstance(value, ast.AST):
                add(value)
            elif type(value) is list:
                for part in value:
                    if isinstance(part, ast.AST):
                        add(part)
    return found


def guards(test: ast.expr) -> set[str]:
    """What a condition asks for, by the names in it: `=` and each of them, too."""
    known: set[str] | None = getattr(test, "tenure_guards", None)
    if known is not None:
        return known
    found: set[str] = set()
    for one in nodes(test):
        name = one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else ""
        if name in ("is_grad_enabled", "requires_grad"):
            found.add("grad")
        elif name in ("is_compiling", "Tracer", "is_tracing", "executing_eagerly", "is_exporting", "inside_function", "is_fx_tracing",
                      "is_keras_tensor", "is_symbolic_tensor", "is_concrete", "trace_state_clean", "is_dynamo_compiling"):  # fmt: skip
            found.add("tracing")
        if isinstance(one, ast.Compare) and isinstance(one.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            found.add("compared")
        if name == "hasattr" or _asks_whether_made(one):
            found.add("once")
        asked = one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else name
        if asked:
            found.add(f"={asked}")
    test.tenure_guards = found  # type: ignore[attr-defined]
    return found


def asked_first(test: ast.expr) -> set[str]:
    """The same of a condition that is known to hold: only whether what follows happens the first time, and the names."""
    found = guards(test)
    return {"first", *(one for one in found if one[0] == "=")} if "once" in found else _NOTHING


def _asks_whether_made(test: ast.AST) -> bool:
    """`if x is None`, `if not x`, `if key not in x`: what follows happens the first time."""
    if isinstance(test, ast.Compare):
        other = test.comparators[0]
        none = isinstance(other, ast.Constant) and other.value is None
        return isinstance(test.ops[0], ast.NotIn) or (isinstance(test.ops[0], (ast.Is, ast.Eq)) and none)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def free_names(node: Any) -> set[str]:
    """The names that a function takes from outside."""
    known = getattr(node, "tenure_free", None)
    if known is None:
        bound = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        used: set[str] = set()
        body = node.body if isinstance(node.body, list) else [node.body]
        for part in body:
            for one in nodes(part):
                if isinstance(one, ast.Name):
                    (used if isinstance(one.ctx, ast.Load) else bound).add(one.id)
        known = node.tenure_free = used - bound
    return set(known)


def carried_names(loop: ast.AST) -> set[str]:
    """The names that an iteration reads before it assigns them: only these carry something from the one before."""
    known: set[str] | None = getattr(loop, "tenure_carried", None)
    if known is None:
        first: dict[str, bool] = {}
        for part in _in_order(loop):
            first.setdefault(part.id, isinstance(part.ctx, ast.Load))
        known = loop.tenure_carried = {name for name, read in first.items() if read}  # type: ignore[attr-defined]
    return known


def _in_order(node: ast.AST) -> Iterator[ast.Name]:
    """The names in a statement or expression, in the order in which they are evaluated."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.AugAssign):
        for one in nodes(node):
            if isinstance(one, ast.Name):
                yield ast.Name(one.id, ast.Load())
    else:
        parts: list[Any] = list(children(node))
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            parts.sort(key=lambda one: one is not node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            parts.sort(key=lambda one: one is not node.iter)
        for one in parts:
            yield from _in_order(one)


_SAME_LENGTH = ("enumerate", "zip", "list", "tuple", "sorted", "reversed")


def iterated(loop: Any) -> Any:
    """What a loop or a comprehension goes over, without what keeps its length; None if it is not written so."""
    parts: Any = getattr(loop.node, "generators", ())
    over = parts[0].iter if len(parts) == 1 else getattr(loop.node, "iter", None)
    while isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id in _SAME_LENGTH and over.args:
        over = over.args[0]
    return over


def over_range(loop: Any) -> bool:
    """Whether a loop goes over `range(…)`."""
    over = iterated(loop)
    return isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range"


def many_turns(loop: Any, few: int = 16) -> bool:
    """Whether a loop surely or possibly goes round more often than a few times."""
    if getattr(loop, "count", None) is not None:
        return bool(loop.count > few)
    over = iterated(loop)
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
        numbers = [a.value for a in over.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
        if len(numbers) == len(over.args):
            return len(range(*numbers)) > few
    return not isinstance(over, (ast.Tuple, ast.List))


def counted_through(node: ast.AST) -> set[str]:
    """The attributes that `range(…)` gets somewhere: how often a loop goes round depends on them."""
    calls = (one for one in nodes(node) if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "range")
    return {part.attr for call in calls for part in nodes(call) if isinstance(part, ast.Attribute)}


def periodic(node: ast.If) -> bool:
    """`if step % 10 == 0:` with a body after which the loop goes on."""
    counted = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod) for one in ast.walk(node.test))
    leaves = (ast.Break, ast.Return, ast.Raise)
    return counted and not any(isinstance(one, leaves) for part in node.body for one in ast.walk(part))


def recurs(node: ast.Assign) -> bool:
    """`x = x * 0.9`, `x = max(0.1, x - 0.01)`: a number that is another one in each iteration."""
    value = node.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("max", "float", "round"):
        value = next((one for one in value.args if isinstance(one, ast.BinOp)), value)
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub, ast.Mult, ast.Div))):
        return False
    target = ast.unparse(node.targets[0])
    return any(isinstance(one, (ast.Name, ast.Attribute)) and ast.unparse(one) == target for one in ast.walk(value))
