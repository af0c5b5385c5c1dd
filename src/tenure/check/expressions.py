"""Expressions: what each is, as far as it can be known without running it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tenure.check import calls, effects, keeping
from tenure.check.machine import Loop, Machine, OutOfSteps
from tenure.check.parts import GROWING
from tenure.check.values import (
    NONE,
    Class,
    Const,
    Either,
    Func,
    Map,
    Num,
    Obj,
    Ref,
    Seq,
    Spot,
    Tensor,
    Value,
    Wrapped,
    best,
    join,
    options,
    read,
)  # fmt: skip


def evaluate(m: Machine, node: ast.expr) -> Value:
    """The value of an expression."""
    m.steps -= 1
    if m.steps < 0:
        raise OutOfSteps
    step = _STEPS.get(type(node))
    return step(m, node) if step is not None else m.unknown(node)


def truth(value: Value) -> bool | None:
    """Whether a condition is known to hold."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, (Seq, Map)) and value.rest is None and not value.loops and not value.state.get("grown"):
        return None
    return True if isinstance(value, (Obj, Func, Class)) else None


def _constant(m: Machine, node: ast.Constant) -> Value:
    return Const(node.value)


def _name(m: Machine, node: ast.Name) -> Value:
    return m.lookup(node.id)


def _attribute(m: Machine, node: ast.Attribute) -> Value:
    return attribute(m, evaluate(m, node.value), node.attr, node)


def attribute(m: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """`owner.name`, read."""
    owner = best(owner)
    if isinstance(owner, Ref):
        return effects.ref_attribute(m, owner, name, node)
    if isinstance(owner, Obj):
        return object_attribute(m, owner, name, node)
    if isinstance(owner, Class):
        found = owner.find(name)
        return found if found is not None else m.unknown(node)
    if isinstance(owner, Tensor):
        return effects.tensor_attribute(m, owner, name, node)
    if isinstance(owner, Wrapped) and name == "__wrapped__":
        return owner.inner
    return m.unknown(node)


def object_attribute(m: Machine, owner: Obj, name: str, node: ast.AST) -> Value:
    """An attribute of an object: its own, or its class's, methods bound to it."""
    found = owner.attrs.get(name)
    if found is not None:
        effects.attribute_read(m, owner, name, found, node)
        return found
    if owner.cls is not None:
        found = owner.cls.find(name)
        if isinstance(found, Func):
            if effects.is_property(found):
                return calls.call_function(m, found.bind(owner), [], {}, node)
            return found if effects.is_static(found) else found.bind(owner)
        if isinstance(found, Wrapped):
            return effects.bind_wrapped(m, found, owner, node)
        if found is not None:
            return found
    return effects.framework_attribute(m, owner, name, node)


def _call(m: Machine, node: ast.Call) -> Value:
    return calls.call_node(m, node)


def _tuple(m: Machine, node: ast.Tuple | ast.List | ast.Set) -> Value:
    kind = {ast.Tuple: "tuple", ast.List: "list", ast.Set: "set"}[type(node)]
    items: list[Value] = []
    rest: Value | None = None
    for one in node.elts:
        if isinstance(one, ast.Starred):
            inner = best(evaluate(m, one.value))
            if isinstance(inner, Seq):
                read(inner)
                items.extend(inner.items)
                rest = inner.rest or rest
            else:
                rest = m.unknown(one)
        else:
            items.append(evaluate(m, one))
    made = m.seq(kind, items, node)
    made.rest = rest
    return made


def _dict(m: Machine, node: ast.Dict) -> Value:
    made: Map = m.own(Map(m.spot(node)))
    for key, item in zip(node.keys, node.values, strict=True):
        value = evaluate(m, item)
        if key is None:
            effects.merge_map(m, made, value)
            continue
        name = evaluate(m, key)
        hashed = as_key(name)
        if hashed is not None:
            made.attrs[hashed] = value
        else:
            made.rest = value if made.rest is None else join(made.rest, value)
    return made


def as_key(value: Value) -> Any:
    """A constant that can be a key, wrapped so that None is one too; None if the value is not known."""
    if isinstance(value, Const) and isinstance(value.value, (str, int, float, bool, bytes, type(None))):
        return ("k", value.value)
    if isinstance(value, (Tensor, Obj)):
        return ("i", id(value))
    return None


def _subscript(m: Machine, node: ast.Subscript) -> Value:
    owner = best(evaluate(m, node.value))
    index = evaluate(m, node.slice)
    return item(m, owner, index, node)


def item(m: Machine, owner: Value, index: Value, node: ast.AST) -> Value:
    """`owner[index]`, read."""
    if isinstance(owner, Seq):
        read(owner)
        if isinstance(index, Const) and isinstance(index.value, int) and owner.rest is None:
            if -len(owner.items) <= index.value < len(owner.items):
                return owner.items[index.value]
            return m.unknown(node)
        if isinstance(index, Ref) and index.name == "slice":
            made = m.seq(owner.kind, list(owner.items), node)
            made.rest = owner.rest
            made.state.update(owner.state)
            return made
        return effects.element(m, owner, node)
    if isinstance(owner, Map):
        key = as_key(index)
        if key is not None and key in owner.attrs:
            return owner.attrs[key]
        if m.world.get("tries"):
            owner.state["tested"] = True
        found = owner.rest
        for value in list(owner.attrs.values())[:4] if key is None else ():
            found = value if found is None else join(found, value)
        return found if found is not None else m.unknown(node)
    if isinstance(owner, Tensor):
        return effects.index(m, owner, index, node)
    if isinstance(owner, Obj):
        return effects.object_item(m, owner, index, node)
    if isinstance(owner, Num):
        return Num(varies=owner.varies)
    return m.unknown(node)


def set_item(m: Machine, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
    """`owner[index] = value`."""
    for one in options(owner):
        if isinstance(one, Map):
            effects.stored(m, one, index, value, node)
            key = as_key(index)
            if key is not None:
                m.note_write(one.attrs, key, value, m.spot(node), one)
                m.put(one.attrs, key, value)
            else:
                joined = value if one.rest is None else join(one.rest, value)
                m.note_write(one, "rest", value, m.spot(node), one)
                one.rest = joined
        elif isinstance(one, Seq):
            effects.stored(m, one, index, value, node)
            m.note_write(one, "items", value, m.spot(node), one)
            if (
                isinstance(index, Const)
                and isinstance(index.value, int)
                and -len(one.items) <= index.value < len(one.items)
            ):
                one.items[index.value] = value
            else:
                one.rest = value if one.rest is None else join(one.rest, value)
        elif isinstance(one, Tensor):
            effects.written(m, one, node, "item assignment", [v for v in (value,) if isinstance(v, Tensor)])
        elif isinstance(one, Obj):
            effects.object_item_set(m, one, index, value, node)


_FEW = 64  # `step % 4` differs from turn to turn, but nothing that it is the key of grows
_BUCKET = 8  # `(n + 15) // 16 * 16`: few sizes for many lengths
_FOLD: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv,
}  # fmt: skip


def _binary(m: Machine, node: ast.BinOp) -> Value:
    return effects.operate(m, evaluate(m, node.left), evaluate(m, node.right), type(node.op), node)


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


def _unary(m: Machine, node: ast.UnaryOp) -> Value:
    value = evaluate(m, node.operand)
    if isinstance(node.op, ast.Not):
        known = truth(value)
        effects.read_as_bool(m, value, node.operand)
        return Const(not known) if known is not None and isinstance(value, Const) else Num()
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and isinstance(node.op, ast.USub):
        return Const(-value.value)
    if isinstance(value, (Const, Num)):
        return value
    return effects.operate(m, value, Const(-1), ast.Mult, node)


def _boolean(m: Machine, node: ast.BoolOp) -> Value:
    found: Value | None = None
    for one in node.values:
        value = evaluate(m, one)
        known = truth(value) if isinstance(value, Const) else None
        if isinstance(node.op, ast.And) and known is False:
            return value if found is None else Num()
        if isinstance(node.op, ast.Or) and known is True and found is None:
            return value
        if known is None:
            found = value if found is None else join(found, value)
    return found if found is not None else Const(isinstance(node.op, ast.And))


def _compare(m: Machine, node: ast.Compare) -> Value:
    left = evaluate(m, node.left)
    rights = [evaluate(m, one) for one in node.comparators]
    right, op = rights[0], node.ops[0]
    if len(rights) == 1:
        if isinstance(op, (ast.Is, ast.IsNot)) and isinstance(right, Const) and right.value is None:
            known = _is_none(left)
            return Num() if known is None else Const(known == isinstance(op, ast.Is))
        if isinstance(op, (ast.In, ast.NotIn)):
            return _contains(m, left, right, negated=isinstance(op, ast.NotIn))
        if isinstance(left, Const) and isinstance(right, Const) and isinstance(op, (ast.Eq, ast.NotEq)):
            return Const((left.value == right.value) == isinstance(op, ast.Eq))
        if isinstance(left, Ref) and left.name == "builtins.__name__":
            return Const(value=True)
    if any(isinstance(best(v), Tensor) and not _plain(best(v)) for v in (left, *rights)):
        return effects.compared(m, [left, *rights], node)
    return Num(varies=any(isinstance(v, Num) and v.varies for v in (left, *rights)))


def _plain(value: Value) -> bool:
    return isinstance(value, Tensor) and value.fw is None and not value.graph


def _is_none(value: Value) -> bool | None:
    if isinstance(value, Tensor) and "grad" in value.flags:
        return True if isinstance(value.state.get("reset"), Spot) else None
    known = {isinstance(one, Const) and one.value is None for one in options(value) if not _plain(one)}
    if any(_plain(one) or isinstance(one, Num) for one in options(value)) or len(known) != 1:
        return None
    return known.pop()


def _contains(m: Machine, left: Value, right: Value, *, negated: bool) -> Value:
    right = best(right)
    if isinstance(right, Map):
        right.state["tested"] = True
        key = as_key(left)
        if key is not None and right.rest is None and (key in right.attrs or not right.state.get("shared")):
            return Const((key in right.attrs) != negated)
    return Num()


def _conditional(m: Machine, node: ast.IfExp) -> Value:
    condition = evaluate(m, node.test)
    known = truth(condition)
    effects.read_as_bool(m, condition, node.test)
    if known is not None:
        return evaluate(m, node.body if known else node.orelse)
    return join(evaluate(m, node.body), evaluate(m, node.orelse))


def _lambda(m: Machine, node: ast.Lambda) -> Value:
    from tenure.check.statements import make_function

    return make_function(m, node)


def _comprehension(m: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    from tenure.check.statements import bind

    frame = m.frame
    saved = dict(frame.names)
    items: list[Value] = []
    made_map: Map = m.own(Map(m.spot(node)))

    def element() -> None:
        if isinstance(node, ast.DictComp):
            key, value = evaluate(m, node.key), evaluate(m, node.value)
            hashed = as_key(key)
            if hashed is not None and isinstance(key, Const):
                made_map.attrs[hashed] = value
            else:
                made_map.rest = value if made_map.rest is None else join(made_map.rest, value)
            items.append(value)
        else:
            items.append(evaluate(m, node.elt))

    def level(index: int) -> None:
        if index == len(node.generators):
            element()
            return
        part = node.generators[index]
        iterable = evaluate(m, part.iter)
        turns = effects.turns(m, iterable, part)
        m.uid += 1
        one = Loop(m.uid, node)
        m.loops.append(one)
        m.loop_ids = (*m.loop_ids, one.uid)
        try:
            for turn in range(turns):
                one.turn = turn
                bind(m, part.target, effects.next_element(m, iterable, turn, part.target, part.iter))
                for test in part.ifs:
                    evaluate(m, test)
                level(index + 1)
            if not index:
                keeping.comprehended(m, node, items, one)
        finally:
            m.loops.pop()
            m.loop_ids = m.loop_ids[:-1]

    level(0)
    frame.names = saved
    if isinstance(node, ast.DictComp):
        return made_map
    kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "generator"}[type(node)]
    made = m.seq(kind, items, node)
    made.state["comprehension"] = True
    return made


def _slice(m: Machine, node: ast.Slice) -> Value:
    bounds = [evaluate(m, part) for part in (node.lower, node.upper, node.step) if part is not None]
    # `x[:n]` has another length in every turn; `x[i : i + n]` has not.
    growing = len(bounds) == 1 and isinstance(bounds[0], Num) and bounds[0].varies
    return GROWING if growing else Ref("slice")


def _formatted(m: Machine, node: ast.JoinedStr) -> Value:
    varies = False
    for one in node.values:
        if isinstance(one, ast.FormattedValue):
            value = evaluate(m, one.value)
            effects.read_as_text(m, value, one.value)
            varies = varies or (isinstance(value, Num) and value.varies)
    return Num(varies=varies)


def _walrus(m: Machine, node: ast.NamedExpr) -> Value:
    value = evaluate(m, node.value)
    m.assign(node.target.id, value, m.spot(node))
    return value


def _yield(m: Machine, node: ast.Yield | ast.YieldFrom) -> Value:
    value = evaluate(m, node.value) if node.value is not None else NONE
    if isinstance(node, ast.YieldFrom):
        value = effects.element(m, best(value), node)
    have = m.frame.yielded
    m.frame.yielded = value if have is None else join(have, value)
    return m.unknown(node)


def _await(m: Machine, node: ast.Await) -> Value:
    return evaluate(m, node.value)


_STEPS: dict[type, Callable[[Machine, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Set: _tuple,
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Slice: _slice,
    ast.JoinedStr: _formatted,
    ast.NamedExpr: _walrus,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Await: _await,
    ast.Starred: lambda m, node: evaluate(m, node.value),
}

__all__ = ["Either", "Spot", "attribute", "evaluate", "fold", "item", "set_item", "truth"]
