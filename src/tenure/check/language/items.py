"""Items: `owner[index]`, read and assigned."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Map, Num, Obj, Ref, Seq, Tensor, Value
from tenure.check.language import iteration, objects
from tenure.check.lifetimes import escapes, retention, tensor_slices, uses, writes
from tenure.check.value_queries import best, join, options, read


def as_key(value: Value) -> Any:
    """A constant that can be a key, wrapped so that None is one too; None if the value is not known."""
    if isinstance(value, Const) and isinstance(value.value, (str, int, float, bool, bytes, type(None))):
        return ("k", value.value)
    if isinstance(value, (Tensor, Obj)):
        return ("i", id(value))
    return None


def item(m: Interpreter, owner: Value, index: Value, node: ast.AST) -> Value:
    """`owner[index]`, read."""
    plain = isinstance(owner, Seq) or (isinstance(owner, Tensor) and owner.fw == "np")
    if plain and isinstance(index, Tensor) and index.fw == "jax":
        uses.read_as_number(m, index, node, "an index")
    if isinstance(owner, Seq):
        read(owner)
        if isinstance(index, Const) and isinstance(index.value, int) and owner.rest is None:
            if -len(owner.items) <= index.value < len(owner.items):
                return owner.items[index.value]
            return m.unknown(node)
        if isinstance(index, Ref) and index.name == "slice":
            made = m.seq(owner.kind, list(owner.items), node)
            made.rest = owner.rest
            made.state.copy_from(owner.state)
            return made
        return iteration.element(m, owner, node)
    if isinstance(owner, Map):
        key = as_key(index)
        if key is not None and key in owner.attrs:
            return owner.attrs[key]
        if m.world.attempts:
            owner.state.tested = True
        found = owner.rest
        for value in list(owner.attrs.values())[:4] if key is None else ():
            found = value if found is None else join(found, value)
        return found if found is not None else m.unknown(node)
    if isinstance(owner, Tensor):
        return tensor_slices.index(m, owner, index, node)
    if isinstance(owner, Obj):
        inner = owner.attrs.get("<container>")
        own = owner.cls is not None and owner.cls.find("__getitem__") is not None
        return objects.object_item(m, owner, index, node) if own or inner is None else item(m, inner, index, node)
    if isinstance(owner, Num):
        return Num(varies=owner.varies)
    return m.unknown(node)


def set_item(m: Interpreter, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
    """`owner[index] = value`."""
    for one in options(owner):
        if isinstance(one, Map):
            retention.stored(m, one, index, value, node)
            key = as_key(index)
            retention.slot_written(m, one, key, value, node)
            if key is not None:
                m.note_write(one.attrs, key, value, m.spot(node), one)
                m.put(one.attrs, key, value)
            else:
                joined = value if one.rest is None else join(value, one.rest)  # the newest first: it is followed
                m.note_write(one, "rest", value, m.spot(node), one)
                one.rest = joined
        elif isinstance(one, Seq) and isinstance(index, Ref) and index.name == "slice":
            retention.drained(m, one)  # what was there is replaced
            if isinstance(inner := best(value), Seq) and not m.conditions:
                one.items, one.rest = list(inner.items), inner.rest
        elif isinstance(one, Seq):
            retention.stored(m, one, index, value, node)
            m.note_write(one, "item", value, m.spot(node), one)
            if (
                isinstance(index, Const)
                and isinstance(index.value, int)
                and -len(one.items) <= index.value < len(one.items)
            ):
                one.items[index.value] = value
            else:
                one.rest = value if one.rest is None else join(one.rest, value)
        elif isinstance(one, Tensor):
            writes.written(m, one, node, "item assignment", [v for v in (value,) if isinstance(v, Tensor)])
            if one.fw is None:
                escapes.escape(m, [value])
        elif isinstance(one, Obj):
            objects.object_item_set(m, one, index, value, node)


def update(m: Interpreter, owner: Map, source: Map, node: ast.AST) -> None:
    """`owner.update(source)`."""
    for key, value in source.attrs.items():
        retention.stored(m, owner, Const(key[1]) if key[0] == "k" else NONE, value, node)
        m.note_write(owner.attrs, key, value, m.spot(node), owner)
        m.put(owner.attrs, key, value)
    if source.rest is not None:
        set_item(m, owner, source.state.key or Num(), source.rest, node)
