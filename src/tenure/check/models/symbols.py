"""Arguments inside a traced function, and its results outside."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Const, Either, Framework, Map, Num, Obj, Seq, Tensor, Trace, Value
from tenure.check.models import jax_pytrees
from tenure.check.value_queries import best


def assumed(m: Interpreter, trace: Trace, node: ast.AST) -> Tensor:
    """What an argument is inside a traced function, whoever calls it."""
    made = Tensor(trace.framework, m.spot(node))
    made.trace, made.flags = trace, frozenset({"assumed"})
    return m.own(made)  # type: ignore[no-any-return]


def symbol(m: Interpreter, value: Value, trace: Trace, node: ast.AST) -> Value:
    """What an argument is inside the traced function."""
    if isinstance(value, Either):
        return symbol(m, best(value), trace, node)
    framework = trace.framework
    if isinstance(value, Tensor):
        if framework == "tf" and "variable" in value.flags:
            return value
        made: Tensor = m.own(Tensor(framework, value.born if value.fw else m.spot(node)))
        made.trace = trace
        made.flags = frozenset() if value.fw is not None else frozenset({"assumed"})
        return made
    if isinstance(value, Seq):
        copied = m.seq(value.kind, [symbol(m, one, trace, node) for one in value.items], node)
        copied.rest = symbol(m, value.rest, trace, node) if value.rest is not None else None
        return copied
    if isinstance(value, Map):
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.attrs = {key: symbol(m, one, trace, node) for key, one in value.attrs.items()}
        made_map.rest = symbol(m, value.rest, trace, node) if value.rest is not None else None
        return made_map
    number = isinstance(value, Num) or (isinstance(value, Const) and isinstance(value.value, (int, float)))
    if framework == "jax" and number:
        traced_number: Tensor = m.own(Tensor("jax", m.spot(node)))
        traced_number.trace = trace
        return traced_number
    if framework == "jax" and isinstance(value, Obj) and value.cls is not None:
        twin = m.obj(value.kind, node, value.cls)
        all_fields = jax_pytrees.fields(value.cls)
        twin.attrs = {
            key: (symbol if key in all_fields else array_symbol)(m, one, trace, node)
            for key, one in value.attrs.items()
        }
        return twin
    return value


def array_symbol(m: Interpreter, value: Value, trace: Trace, node: ast.AST) -> Value:
    """The same where only arrays are traced, and all else stays what it is: a static field, an argument of `filter_jit`."""
    if isinstance(value, Either):
        return array_symbol(m, best(value), trace, node)
    if isinstance(value, (Num, Const)):
        return value
    if isinstance(value, Tensor) and value.fw is None:
        return m.own(Tensor(None, value.born))  # type: ignore[no-any-return]  # whatever becomes of the argument
    if isinstance(value, Seq):
        copied = m.seq(value.kind, [array_symbol(m, one, trace, node) for one in value.items], node)
        copied.rest = array_symbol(m, value.rest, trace, node) if value.rest is not None else None
        return copied
    if isinstance(value, Map):
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.attrs = {key: array_symbol(m, one, trace, node) for key, one in value.attrs.items()}
        made_map.rest = array_symbol(m, value.rest, trace, node) if value.rest is not None else None
        return made_map
    return symbol(m, value, trace, node)


def concrete(m: Interpreter, value: Value, framework: Framework, node: ast.AST, depth: int = 0) -> Value:
    """What a traced function's result is outside."""
    if isinstance(value, Either):
        return concrete(m, best(value), framework, node, depth)
    if isinstance(value, Tensor):
        if "variable" in value.flags:
            return value
        if value.fw is None and framework != "jax":
            return m.unknown(node)
        made = m.tensor(framework, node)
        made.flags |= value.flags & {"scalar"}
        return made
    if isinstance(value, Seq) and depth < 4:
        copied = m.seq(value.kind, [concrete(m, one, framework, node, depth + 1) for one in value.items], node)
        copied.rest = concrete(m, value.rest, framework, node, depth + 1) if value.rest is not None else None
        return copied
    if isinstance(value, Map) and depth < 4:
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.attrs = {k: concrete(m, one, framework, node, depth + 1) for k, one in value.attrs.items()}
        made_map.rest = concrete(m, value.rest, framework, node, depth + 1) if value.rest is not None else None
        return made_map
    if (
        isinstance(value, Obj)
        and value.cls is not None
        and framework == "jax"
        and depth < 4
        and m.traces != value.traces
    ):
        twin = m.obj(value.kind, node, value.cls)
        traced = jax_pytrees.fields(value.cls)
        for key, one in value.attrs.items():
            plain = isinstance(one, (Num, Const)) or (isinstance(one, Tensor) and one.fw is None)
            kept = plain and key not in traced  # a static field
            twin.attrs[key] = one if kept else concrete(m, one, framework, node, depth + 1)
        return twin
    if isinstance(value, (Num, Const)) and not (isinstance(value, Const) and value.value is None):
        return m.tensor(framework, node)
    return value
