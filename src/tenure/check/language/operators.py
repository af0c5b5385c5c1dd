"""Operators: what `+`, `*` and `+=` do to numbers, lists and tensors."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tenure.check import facts, kept
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import (
    NONE,
    Const,
    Either,
    Framework,
    Func,
    Map,
    Maybe,
    Node,
    Num,
    Obj,
    Seq,
    Spot,
    Tensor,
    Value,
)
from tenure.check.language.items import update
from tenure.check.lifetimes import graphs, retention, retracing, uses
from tenure.check.lifetimes.retention import stored
from tenure.check.lifetimes.uses import chosen, use
from tenure.check.lifetimes.writes import written
from tenure.check.value_queries import best, tensors

_OPS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.MatMult: "matmul",
    ast.FloorDiv: "div", ast.Mod: "div",
}  # fmt: skip


_DUNDER: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Pow: "pow", ast.MatMult: "matmul",
    ast.LShift: "lshift", ast.RShift: "rshift", ast.BitOr: "or", ast.BitAnd: "and", ast.FloorDiv: "floordiv", ast.Mod: "mod",
}  # fmt: skip


def operate(m: Interpreter, left: Value, right: Value, op: type, node: ast.AST) -> Value:
    """`left op right`."""
    one, other = chosen(left), chosen(right)
    own = one.cls.find(f"__{_DUNDER.get(op, '')}__") if isinstance(one, Obj) and one.cls is not None else None
    if isinstance(own, Func):
        return m.call_function(own.bind(one), [other], {}, node)
    plain = fold(one, other, op)
    if plain is not None:
        return plain
    if isinstance(one, Seq) and op in (ast.Add, ast.Mult, ast.BitOr):
        made = m.seq(one.kind, list(one.items), node)
        made.rest = one.rest
        made.state.copy_from(one.state)
        if op is ast.Mult and one.items and not all(isinstance(item, Const) for item in one.items):
            made.rest = made.rest or one.items[-1]
        if isinstance(other, Seq):
            made.items.extend(other.items[:12])
            made.rest = other.rest if made.rest is None else made.rest
        made.state.lengthens = any(isinstance(part, Seq) and retracing.lengthens(m, part) for part in (one, other))
        return made
    found = [v for v in (one, other) if isinstance(v, Tensor)]
    number = any(isinstance(v, (Num, Const)) for v in (one, other))
    for v in found:
        if v.fw is not None or not number:  # `epoch + 1`, of an epoch of which nothing is known, may be a number
            use(m, v, node)
        if v.state.unfilled is not None:
            uses.unfilled(m, v, node)
    if not found:
        return m.unknown(node)
    known = [v for v in found if v.fw is not None]
    name = _OPS.get(op, "div")
    if not known or (known[0].fw == "np" and len(found) > len(known)):
        made_unknown = m.unknown(node)
        if name in ("add", "sub", "mul", "div"):
            made_unknown.node = Node(name, made_unknown.born, tuple(_node_of(v) for v in found), m.turn())
        return made_unknown
    fw: Framework | None = next((v.fw for v in known if v.fw != "np"), "np")
    fw = "torch" if any(v.fw == "torch" for v in known) else fw
    if name == "div" and len(found) == 1 and isinstance(other, Tensor):
        name = "reciprocal"  # a number divided by a tensor
    return m.result(fw, found, node, name)


def _node_of(tensor: Tensor) -> Node:
    if tensor.node is None:
        tensor.node = Node("unknown", tensor.born, (), ())
        tensor.node.state.unknown = True
    return tensor.node


def augmented(m: Interpreter, left: Value, right: Value, node: ast.AugAssign) -> Value:
    """`left op= right`: in place for tensors."""
    one = best(left)
    if isinstance(one, Tensor) and "grad" in one.flags:
        _gradient_added(m, one.state.reset, node)
    elif isinstance(left, Either) and isinstance(node.target, ast.Attribute) and node.target.attr == "grad":
        owner = best(m.evaluate(node.target.value))
        if any(isinstance(o, Const) and o.value is None for o in left.options) and isinstance(owner, Tensor):
            reset = owner.state.reset
            _gradient_added(m, reset.spot if isinstance(reset, Maybe) else reset, node)
    if isinstance(one, Seq) and isinstance(best(right), Seq):
        for value in best(right).items:  # type: ignore[attr-defined]
            stored(m, one, NONE, value, node)
            if len(one.items) < 12:
                one.items.append(value)
        return one
    if isinstance(one, Map) and isinstance(added := best(right), Map):
        update(m, one, added, node)
        return one
    if isinstance(one, Obj) and one.cls is not None:
        own = one.cls.find(f"__i{_DUNDER.get(type(node.op), '')}__")
        if isinstance(own, Func):
            return m.call_function(own.bind(one), [right], {}, node)
    if isinstance(one, Obj) and isinstance(best(right), Tensor):
        return one
    if isinstance(one, Tensor) and one.fw == "torch":
        written(m, one, node, f"{_OPS.get(type(node.op), 'op')}_", [])
        made = operate(m, one, right, type(node.op), node)
        if isinstance(made, Tensor):
            made.store = one.store
            made.flags |= one.flags & {"inference", "expanded"}
            _same_handle(m, one, made)
        return made
    if isinstance(one, Tensor) and one.fw == "np" and "perhaps number" not in one.flags:
        use(m, one, node)
        graphs.written(m, one.store, m.spot(node))
        return one
    value = operate(m, left, right, type(node.op), node)
    if isinstance(node.op, (ast.Add, ast.Sub)) and m.loops:
        for addend in tensors(right):
            if addend.fw in (None, "torch"):
                expressions = retention.expressions(m, node, right)
                m.kept.append(kept.Sum(m.spot(node), _sum_loop(m, node.target), addend, expressions))
    return value


def _same_handle(m: Interpreter, before: Tensor, after: Tensor) -> None:
    """A scope ends what was created in it. What an operation in place returns is as old as what it changed."""
    for _, born in m.world.scopes:
        if any(one is before for one in born):
            return
    for _, born in m.world.scopes:
        born[:] = [one for one in born if one is not after]


def _slot(m: Interpreter, target: ast.expr) -> Any:
    if isinstance(target, ast.Attribute):
        return best(m.evaluate(target.value))
    return None


def _sum_loop(m: Interpreter, target: ast.expr) -> Any:
    """The loop that the sum outlives: for an attribute, one that the object outlives."""
    if isinstance(target, ast.Attribute):
        return retention.outlived(m, _slot(m, target))
    return m.loops[-1]


def _gradient_added(m: Interpreter, reset: Any, node: ast.AugAssign) -> None:
    if isinstance(reset, Spot):
        m.add_fact(facts.GradientReset(use=m.spot(node), end=reset))


_FEW = 64  # `step % 4` differs from turn to turn, but nothing that it is the key of grows
_BUCKET = 8  # `(n + 15) // 16 * 16`: few sizes for many lengths
_FOLD: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv,
}  # fmt: skip


def fold(one: Value, other: Value, op: type) -> Value | None:
    """Arithmetic of plain values."""
    if not (isinstance(one, (Const, Num)) and isinstance(other, (Const, Num))):
        return None
    if isinstance(one, Const) and isinstance(other, Const):
        known = isinstance(one.value, (int, float)) and isinstance(other.value, (int, float))
        if known and op in _FOLD and abs(one.value) < 1e9 and abs(other.value) < 1e9:
            try:
                return Const(_FOLD[op](one.value, other.value))
            except ArithmeticError:
                return Num()
        return Num()
    known = isinstance(other, Const) and isinstance(other.value, int)
    few = op is ast.Mod and known and 0 < other.value <= _FEW  # type: ignore[union-attr]
    few = few or (op is ast.FloorDiv and known and other.value >= _BUCKET)  # type: ignore[union-attr]
    return Num(varies=not few and any(isinstance(v, Num) and v.varies for v in (one, other)))


def counted(m: Interpreter, left: Value, value: Value) -> Value:
    """Return the value that a loop adds to again and again: a counter differs from iteration to iteration."""
    if not (m.loops and isinstance(best(left), (Const, Num)) and isinstance(value, (Const, Num))):
        return value
    text = isinstance(value, Const) and isinstance(value.value, str)
    return Num(varies=True) if not text or m.loops[-1].turn else value
