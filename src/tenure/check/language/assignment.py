"""Assignment: names, tuples, attributes and items as targets."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Class, Func, Map, Obj, Seq, Tensor, Value
from tenure.check.language import iteration, objects, places, rebuilt
from tenure.check.language.items import set_item
from tenure.check.lifetimes import retention
from tenure.check.value_queries import best, options


def bind(m: Interpreter, target: ast.expr, value: Value) -> None:
    """Bind a target to a value."""
    if isinstance(target, ast.Name):
        old = m.frame.names.get(target.id)
        if m.loops and isinstance(old, (Seq, Map)) and old is not value:
            if sum(one is old for one in m.frame.names.values()) < 2:  # no other name has it
                retention.drained(m, old)
        elif isinstance(old, (Seq, Map)) and old is not value:
            old.state.replaced = True
        rebuilt.bound(m, target, value)
        retention.alias_kept(m, value, m.spot(target))
        if isinstance(value, Obj) and value.kind == "exception":
            retention.exception_bound(m, value, target)
        m.assign(target.id, value, m.spot(target))
    elif isinstance(target, (ast.Tuple, ast.List)):
        unpack(m, target, value)
    elif isinstance(target, ast.Starred):
        bind(m, target.value, m.seq("list", [value], target))
    elif isinstance(target, ast.Attribute):
        owner = m.evaluate(target.value)
        rebuilt.bound(m, target, value)
        set_attribute(m, owner, target.attr, value, target)
    elif isinstance(target, ast.Subscript):
        owner = places.place(m, target.value)
        set_item(m, owner, m.evaluate(target.slice), value, target)


def unpack(m: Interpreter, target: ast.Tuple | ast.List, value: Value) -> None:
    """`a, b = value`."""
    value = iteration.as_sequence(m, best(value), target)
    stars = [isinstance(one, ast.Starred) for one in target.elts]
    if isinstance(value, Seq) and value.rest is None and len(value.items) == len(target.elts) and not any(stars):
        for one, item in zip(target.elts, value.items, strict=True):
            bind(m, one, item)
        return
    for one in target.elts:
        item = iteration.element(m, value, one)
        # `a, b = jax.random.split(key)` gives each name an array of its own; parts of torch's tensors share their bytes.
        several = isinstance(item, Tensor) and item.fw == "jax"
        bind(m, one, iteration.fresh(m, item, one) if several else item)


def set_attribute(m: Interpreter, owner: Value, name: str, value: Value, node: ast.Attribute) -> None:
    """`owner.name = value`."""
    for one in options(owner):
        setter = one.cls.find(f"{name}.setter") if isinstance(one, Obj) and one.cls is not None else None
        if isinstance(one, Obj) and isinstance(setter, Func):
            m.call_function(setter.bind(one), [value], {}, node)
        elif isinstance(one, Obj):
            objects.attribute_set(m, one, name, value, node)
            m.note_write(one.attrs, name, value, m.spot(node), one)
            m.put(one.attrs, name, value)
        elif isinstance(one, Class):
            m.note_write(one.attrs, name, value, m.spot(node), one)
            m.put(one.attrs, name, value)
        elif isinstance(one, Tensor):
            objects.tensor_attribute_set(m, one, name, value, node)
        elif isinstance(one, Func) and one.bound is None:
            held = m.world.function_attributes.setdefault(one.node, {})
            m.note_write(held, name, value, m.spot(node), None)
            m.put(held, name, value)
        elif isinstance(one, Func) and isinstance(one.bound, Obj):
            m.put(one.bound.attrs, name, value)
