"""Expressions: what each is, as far as it can be known without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from tenure.check.abstract_interpreter import Interpreter, OutOfSteps
from tenure.check.abstract_values import NONE, Class, Const, Func, Map, Num, Obj, Ref, Seq, Spot, Tensor, Value, Wrapped
from tenure.check.language import calls, iteration, objects, operators, places
from tenure.check.language.assignment import bind
from tenure.check.language.attributes import attribute
from tenure.check.language.functions import make_function
from tenure.check.language.items import as_key, item
from tenure.check.lifetimes import container_reads, retention, uses
from tenure.check.lifetimes.tensor_slices import GROWING
from tenure.check.syntax import Loop
from tenure.check.value_queries import best, join, options, read, tensors

_FORMATS = re.compile(r"%[-+ #0-9.*]*([a-zA-Z])")


def evaluate(m: Interpreter, node: ast.expr) -> Value:
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
    if isinstance(value, (Seq, Map)) and value.rest is None and not value.loops and not value.state.grown:
        return None
    return True if isinstance(value, (Obj, Func, Class)) else None


def _constant(m: Interpreter, node: ast.Constant) -> Value:
    return Const(node.value)


def _name(m: Interpreter, node: ast.Name) -> Value:
    value = m.lookup(node.id)
    container_reads.loaded(m, value, node)
    return value


def _attribute(m: Interpreter, node: ast.Attribute) -> Value:
    owner = evaluate(m, node.value)
    value = attribute(m, owner, node.attr, node)
    if isinstance(owner, Obj) and isinstance(value, Wrapped) and isinstance(node.value, ast.Call):
        m.note_temporary(owner, value, node)
    container_reads.loaded(m, value, node)
    return value


def _call(m: Interpreter, node: ast.Call) -> Value:
    return calls.call_node(m, node)


def _tuple(m: Interpreter, node: ast.Tuple | ast.List | ast.Set) -> Value:
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


def _dict(m: Interpreter, node: ast.Dict) -> Value:
    made: Map = m.own(Map(m.spot(node)))
    for key, entry in zip(node.keys, node.values, strict=True):
        value = evaluate(m, entry)
        if key is None:
            objects.merge_map(m, made, value)
            continue
        name = evaluate(m, key)
        hashed = as_key(name)
        if hashed is not None:
            made.attrs[hashed] = value
        else:
            made.rest, made.state.key = value if made.rest is None else join(made.rest, value), name
    return made


def _subscript(m: Interpreter, node: ast.Subscript) -> Value:
    raw = places.place(m, node.value)
    index = evaluate(m, node.slice)
    container_reads.indexed(m, raw, index)
    return item(m, uses.chosen(raw), index, node)


def _binary(m: Interpreter, node: ast.BinOp) -> Value:
    left, right = evaluate(m, node.left), evaluate(m, node.right)
    if isinstance(left, Const) and isinstance(left.value, str) and _of_numbers(left.value):
        for one in tensors(right):
            uses.read_as_number(m, one, node, "a format string")
    return operators.operate(m, left, right, type(node.op), node)


def _of_numbers(text: str) -> bool:
    """Whether a format string has only numbers in it, as `"%d: %.3f"` has."""
    found = _FORMATS.findall(text)
    return bool(found) and all(one in "dfeg" for one in found)


def _unary(m: Interpreter, node: ast.UnaryOp) -> Value:
    value = places.condition(m, node.operand) if isinstance(node.op, ast.Not) else evaluate(m, node.operand)
    if isinstance(node.op, ast.Not):
        known = truth(value)
        uses.read_as_bool(m, value, node.operand)
        return Const(not known) if known is not None and isinstance(value, Const) else Num()
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and isinstance(node.op, ast.USub):
        return Const(-value.value)
    if isinstance(value, (Const, Num)):
        return value
    return operators.operate(m, value, Const(-1), ast.Mult, node)


def _boolean(m: Interpreter, node: ast.BoolOp) -> Value:
    found: Value | None = None
    for one in node.values:
        tested = isinstance(node.op, ast.And) and one is not node.values[-1]
        value = places.condition(m, one) if tested else evaluate(m, one)
        if one is not node.values[-1]:
            uses.read_as_bool(m, value, one)
        known = truth(value) if isinstance(value, Const) else None
        if isinstance(node.op, ast.And) and known is False:
            return value if found is None else Num()
        if isinstance(node.op, ast.Or) and known is True and found is None:
            return value
        if known is None:
            found = value if found is None else join(found, value)
    return found if found is not None else Const(isinstance(node.op, ast.And))


def _compare(m: Interpreter, node: ast.Compare) -> Value:
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
        return uses.compared(m, [left, *rights], node)
    if any(_plain(best(v)) for v in (left, *rights)):
        return m.unknown(node)  # it may be a mask
    return Num(varies=any(isinstance(v, Num) and v.varies for v in (left, *rights)))


def _plain(value: Value) -> bool:
    return isinstance(value, Tensor) and value.fw is None and not value.graph


def _is_none(value: Value) -> bool | None:
    if isinstance(value, Tensor) and "grad" in value.flags:
        return True if isinstance(value.state.reset, Spot) else None
    known = {isinstance(one, Const) and one.value is None for one in options(value) if not _plain(one)}
    if any(_plain(one) or isinstance(one, Num) for one in options(value)) or len(known) != 1:
        return None
    return known.pop()


def _contains(m: Interpreter, left: Value, right: Value, *, negated: bool) -> Value:
    right = best(right)
    if isinstance(right, Map):
        right.state.tested = True
        key = as_key(left)
        if key is not None and right.rest is None:
            return Const((key in right.attrs) != negated)
    return Num()


def _conditional(m: Interpreter, node: ast.IfExp) -> Value:
    condition = places.condition(m, node.test)
    known = truth(condition)
    uses.read_as_bool(m, condition, node.test)
    if known is not None:
        return evaluate(m, node.body if known else node.orelse)
    return join(evaluate(m, node.body), evaluate(m, node.orelse))


def _lambda(m: Interpreter, node: ast.Lambda) -> Value:
    return make_function(m, node)


def _comprehension(m: Interpreter, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
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
        iterable = iteration.as_sequence(m, places.place(m, part.iter), part.iter)
        container_reads.walked(m, iterable)
        turns = iteration.turns(m, iterable, part)
        m.uid += 1
        kind = "parts" if iteration.loop_kind(m, iterable) == "parts" else "python"
        one = Loop(m.uid, node, 0, kind, count=iteration.count(iterable))
        m.loops.append(one)
        m.loop_ids = (*m.loop_ids, one.uid)
        try:
            for turn in range(turns):
                one.turn = turn
                bind(m, part.target, iteration.next_element(m, iterable, turn, part.target, part.iter))
                tests = [evaluate(m, test) for test in part.ifs]
                if not any(isinstance(known, Const) and not known.value for known in tests):
                    level(index + 1)
            if not index:
                retention.comprehended(m, node, items, one)
        finally:
            m.loops.pop()
            m.loop_ids = m.loop_ids[:-1]

    level(0)
    frame.names = saved
    if isinstance(node, ast.DictComp):
        return made_map
    kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "generator"}[type(node)]
    made = m.seq(kind, items, node)
    made.state.comprehension = True
    return made


def _slice(m: Interpreter, node: ast.Slice) -> Value:
    bounds = [evaluate(m, part) for part in (node.lower, node.upper, node.step) if part is not None]
    # `x[:n]` has another length in every turn; `x[i : i + n]` has not.
    growing = len(bounds) == 1 and isinstance(bounds[0], Num) and bounds[0].varies
    return GROWING if growing else Ref("slice")


def _formatted(m: Interpreter, node: ast.JoinedStr) -> Value:
    varies = False
    for one in node.values:
        if isinstance(one, ast.FormattedValue):
            value = evaluate(m, one.value)
            uses.read_as_text(m, value, one.value)
            if one.format_spec is not None:
                uses.read_as_number(m, value, one.value, "a format string")
            varies = varies or (isinstance(value, Num) and value.varies)
    return Num(varies=varies)


def _walrus(m: Interpreter, node: ast.NamedExpr) -> Value:
    value = evaluate(m, node.value)
    m.assign(node.target.id, value, m.spot(node))
    return value


def _yield(m: Interpreter, node: ast.Yield | ast.YieldFrom) -> Value:
    value = evaluate(m, node.value) if node.value is not None else NONE
    if isinstance(node, ast.YieldFrom):
        value = iteration.element(m, best(value), node)
    if m.world.blocks and m.world.blocks[-1][0] is m.frame.node:
        m.world.blocks[-1][1](value)
    if m.loops and m.loops[-1].function == m.frame.function:
        m.world.yielding.add(m.loops[-1].uid)
    have = m.frame.yielded
    m.frame.yielded = value if have is None else join(value, have)  # the newest first: it is followed
    return m.unknown(node)


def _await(m: Interpreter, node: ast.Await) -> Value:
    return evaluate(m, node.value)


_STEPS: dict[type, Callable[[Interpreter, Any], Value]] = {
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
