"""Traced functions that trace anew from turn to turn."""

from __future__ import annotations

import ast

from tenure.check.machine import Machine
from tenure.check.values import Const, Func, Num, Tensor, Value, Wrapped, best, inside, tensors


def called(m: Machine, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> None:
    """Look at a call of a traced function inside a loop."""
    if not m.loops or m.traces:
        return
    o = wrapped.options
    if o["name"].endswith(("grad", "vmap", "make_jaxpr", "jacfwd", "jacrev", "hessian")) or o["framework"] == "torch":
        return
    outer = [loop for loop in m.loops if loop.uid not in wrapped.loops and loop.kind == "python"]
    spot = m.spot(node)
    if (
        all(loop.uid in wrapped.loops for loop in m.loops)
        and _new_each_turn(wrapped)
        and m.world.get("script")
        and _long(m)
    ):
        m.tell("function made in loop", [("use", wrapped.born), ("holder", spot)], how=o["name"])
        return
    if not outer:
        return
    shift = 1 if isinstance(wrapped.inner, Func) and wrapped.inner.bound is not None and o.get("unbound") else 0
    names = _parameters(wrapped.inner)
    for index, arg in enumerate(args):
        at = index + shift
        static = at in o["static"] or (at < len(names) and names[at] in o["static_names"])
        _argument(m, wrapped, arg, static=static, node=node)
    for name, arg in kwargs.items():
        static = name in o["static_names"] or (name in names and names.index(name) in o["static"])
        _argument(m, wrapped, arg, static=static, node=node)


def _new_each_turn(wrapped: Wrapped) -> bool:
    """`jit(lambda …)` or `jit(f)` of an `f` defined in the loop; `jit` of one and the same function is found in the cache."""
    inner = wrapped.inner
    framework = wrapped.options["framework"]
    if framework == "tf":
        return True
    made = isinstance(inner, Func) or (isinstance(inner, Wrapped) and inner.kind == "partial")
    return made and bool(set(inner.loops) & set(wrapped.loops))  # type: ignore[attr-defined]


_SHAPED = {"zeros": 0, "ones": 0, "empty": 0, "full": 0, "eye": 0, "arange": 0, "range": 0, "linspace": 2,
           "normal": 1, "uniform": 1, "randint": 1, "fill": 0}  # fmt: skip
_JOINS = frozenset(["concatenate", "concat", "append", "vstack", "hstack"])


def sized(framework: str, name: str, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Whether an array is made in a size that differs from turn to turn."""
    last = name.rpartition(".")[2]
    at = _SHAPED.get(last)
    if at is None:
        return False
    at = 0 if framework == "tf" and at == 1 else at
    shape = kwargs.get("shape", args[at] if at < len(args) else None)
    given = args if last in ("arange", "range") and framework != "torch" else [shape] if shape is not None else []
    # `arange(i, i + 8)` always has 8.
    varying = [isinstance(best(v), Num) for value in given[:2] for v in inside(value) if getattr(v, "varies", False)]
    return any(varying) and (last not in ("arange", "range") or len(given) == 1)


def grows(m: Machine, node: ast.Assign, value: Value) -> None:
    """`x = concatenate([x, new])` in a loop: another shape in every turn."""
    call, target = node.value, node.targets[0]
    if not (isinstance(call, ast.Call) and call.args and isinstance(target, ast.Name) and isinstance(value, Tensor)):
        return
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    first = call.args[0]
    parts = first.elts if isinstance(first, (ast.List, ast.Tuple)) else call.args[:1]
    if name in _JOINS and any(isinstance(part, ast.Name) and part.id == target.id for part in parts):
        value.varies = True


def _parameters(function: Value) -> list[str]:
    if not isinstance(function, Func):
        return []
    return [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]


def _argument(m: Machine, wrapped: Wrapped, arg: Value, *, static: bool, node: ast.AST) -> None:
    framework = wrapped.options["framework"]
    one = best(arg)
    if isinstance(one, Tensor) and one.varies and one.fw in ("jax", "tf", "np") and _long(m) and m.world.get("script"):
        if not wrapped.options.get("relaxed"):
            m.tell(
                "retraced",
                [("use", m.spot(node)), ("birth", one.born)],
                why="an array of another shape",
                how=wrapped.options["name"],
            )
        return
    counts = static if framework == "jax" else True
    if not counts:
        return
    spot = m.spot(node)
    if isinstance(one, Func) and m.loops[-1].uid in one.loops:
        m.tell(
            "retraced", [("use", spot), ("birth", one.born)], why="a function made anew", how=wrapped.options["name"]
        )
    elif isinstance(one, Num) and one.varies and _long(m):
        m.tell(
            "retraced",
            [("use", spot), ("birth", m.spot(m.loops[-1].node))],
            why="a Python number that differs",
            how=wrapped.options["name"],
        )


def _long(m: Machine) -> bool:
    """Whether the loop may have many turns: over a handful, as written, nothing grows."""
    node = m.loops[-1].node
    over = getattr(node, "iter", None)
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
        numbers = [a.value for a in over.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
        if len(numbers) == len(over.args) and numbers:
            return len(range(*numbers)) > 8
    return not isinstance(over, (ast.Tuple, ast.List))


__all__ = ["Const", "called", "tensors"]
