"""Values that leave: returned, deleted, dropped, or passed to code that cannot be followed."""

from __future__ import annotations

import ast

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Func, Map, Obj, Seq, Tensor, Value, Wrapped
from tenure.check.lifetimes import graphs, retention
from tenure.check.lifetimes.uses import use
from tenure.check.value_queries import best, inside, tensors


def discarded(m: Interpreter, value: Value, node: ast.AST) -> None:
    """Follow a call whose result is not used."""
    value = best(value)
    if isinstance(value, Obj) and value.kind == "tensor array" and value.state.write_of is not None:
        m.add_fact(facts.WriteDiscarded(use=m.spot(node), birth=value.state.write_of.born))


def returned(m: Interpreter, value: Value, node: ast.AST) -> None:
    """A function gives a value back."""
    one = best(value)
    if isinstance(one, (Tensor, Seq, Map)):
        for part in inside(one):
            if isinstance(part, (Tensor, Seq, Map)):
                part.state.returned = True
    if isinstance(one, Wrapped) and one.kind == "trace" and one.options.framework == "tf":
        inner = one.inner
        if isinstance(inner, Func) and isinstance(inner.bound, Obj):
            owner = inner.bound
            here = owner.born.function == m.frame.function
            if here and not owner.state.stored and m.frame.names.get("self") is not owner:
                one.state.orphan = (owner.born, m.spot(node))


def deleted(m: Interpreter, target: ast.expr) -> None:
    """`del target`."""
    if isinstance(target, ast.Name):
        value = m.frame.names.get(target.id)
        if value is not None:
            m.world.deleted.append((target.id, value, m.spot(target), m.frame, m.clock))


def escape(m: Interpreter, values: list[Value], node: ast.AST | None = None) -> None:
    """Values go where they cannot be followed."""
    for value in values:
        for one in tensors(value):
            if node is not None and one.state.released is None:
                use(m, one, node)
            for part in graphs.closure(one.node) if one.node is not None else ():
                part.state.escaped = True
            one.state.escaped = True
        for held in inside(value):
            if isinstance(held, (Seq, Map, Obj)):
                held.state.escaped = True
            elif isinstance(held, (Func, Wrapped)):
                escape(m, list(retention.captures(m, held)))
                function: Value = held
                while isinstance(function, Wrapped):
                    function = function.inner
                if isinstance(function, (Seq, Map)):  # its method was passed on
                    function.state.escaped = True
            # Code that cannot be followed may read what the object holds.
            for own in held.attrs.values() if isinstance(held, Obj) else ():
                if isinstance(container := best(own), (Seq, Map)):
                    container.state.escaped = True
