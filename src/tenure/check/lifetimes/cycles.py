"""Objects that refer to themselves in a circle: by their own methods, by closures and hooks, by other objects."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import facts, syntax
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Func, Map, Obj, Seq, Tensor, Value, Wrapped
from tenure.check.lifetimes import graphs
from tenure.check.value_queries import best, inside


def attribute_set(m: Interpreter, owner: Obj, value: Value, node: ast.AST) -> None:
    """`owner.name = value`: the value may lead back to the owner."""
    for one in inside(value):
        if isinstance(one, (Func, Wrapped)) and any(held is owner for held in objects(one)):
            _note(m, owner, node, "bound method" if _is_bound(one, owner) else "closure")
            return
    other = best(value)
    if isinstance(other, Obj) and other is not owner and _reaches(other, owner):
        _note(m, owner, node, "object")


def stored(m: Interpreter, container: Seq | Map, one: Obj, node: ast.AST) -> None:
    """An object is put into a list that it refers to: `parent.children.append(self)`."""
    if one.loops and container.loops[:1] == one.loops[:1] and one.cls is not None and _reaches(one, container):
        _note(m, one, node, "object")


def _note(m: Interpreter, owner: Obj, node: ast.AST, how: facts.CycleKind) -> None:
    m.world.cycles.append((owner, m.spot(node), how))


def _is_bound(function: Value, owner: Obj) -> bool:
    return isinstance(function, Func) and function.bound is owner


def objects(function: Value) -> list[Obj]:
    """The objects that a function holds: as a method, in its closure, as an argument that is set already."""
    found: list[Obj] = []
    while isinstance(function, Wrapped):
        if function.kind == "partial":
            given = [*function.options.args, *function.options.kwargs.values()]
            held = [one for value in given for one in inside(value)]
            found.extend(one for one in held if isinstance(one, Obj))
            found.extend(inner for one in held if isinstance(one, (Func, Wrapped)) for inner in objects(one))
        function = function.inner
    if not isinstance(function, Func):
        return found
    if isinstance(function.bound, Obj):
        found.append(function.bound)
    for name in syntax.free_names(function.node) if function.frame is not None else ():
        frame: Any = function.frame
        while frame is not None and name not in frame.names:
            frame = frame.outer
        value = best(frame.names[name]) if frame is not None else None
        if isinstance(value, Obj):
            found.append(value)
    found.extend(one for one in map(best, function.defaults.values()) if isinstance(one, Obj))
    return found


def _reaches(start: Obj, goal: Value) -> bool:
    """Whether `goal` can be reached from `start`, and tensors or weights are on the way."""
    seen: set[int] = set()
    waiting: list[Value] = [start]
    found = heavy = False
    while waiting and len(seen) < 60:
        for one in inside(waiting.pop()):
            if id(one) in seen:
                continue
            seen.add(id(one))
            found = found or one is goal
            heavy = heavy or _is_heavy(one)
            if isinstance(one, Obj):
                waiting.extend(one.attrs.values())
    return found and heavy


def _is_heavy(one: Value) -> bool:
    return (isinstance(one, Tensor) and one.fw is not None) or (
        isinstance(one, Obj) and one.kind.startswith("torch.nn.")
    )


def _carries(owner: Obj, tensor: Tensor) -> bool:
    """Whether an attribute of an object is a tensor, or was computed from it."""
    held = [one for value in owner.attrs.values() for one in inside(value) if isinstance(one, Tensor)]
    return any(one is tensor or (tensor.node and tensor.node in graphs.closure(one.node)) for one in held)


def add_facts(m: Interpreter, roots: list[Value]) -> None:
    """Report the circles that were left in a loop."""
    for tensor, owner, spot in m.world.tensor_hooks:
        if m.world.script and tensor.graph and tensor.fw == "torch" and _carries(owner, tensor):
            m.add_fact(facts.TensorHookCycle(holder=spot, birth=tensor.born))
    found = m.world.cycles
    if not found or not m.world.script:
        return
    alive = reachable(roots)
    for owner, spot, how in found:
        heavy = owner.family == "torch.Module" or any(
            _is_heavy(one) for value in owner.attrs.values() for one in inside(value)
        )
        # What an uncalled function stores may be what it returns.
        kept = owner.state.escaped or (owner.state.stored and not roots)
        if owner.loops and id(owner) not in alive and heavy and not kept:
            m.add_fact(facts.ReferenceCycle(holder=spot, birth=owner.born, how=how))


def reachable(roots: list[Value]) -> set[int]:
    """All that can be reached from some values, by identity."""
    seen: set[int] = set()
    waiting: list[Any] = list(roots)
    while waiting and len(seen) < 5000:
        value = waiting.pop()
        for one in inside(value):
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, Obj):
                waiting.extend(one.attrs.values())
            elif isinstance(one, Func) and one.bound is not None:
                waiting.append(one.bound)
    return seen


def outputs_on_context(m: Interpreter) -> None:
    """Report the outputs on `ctx` whose cycle no backward pass opens."""
    for step, spot, born, released in m.world.context_outputs:
        opened = released and (step.state.differentiated or step.state.escaped)
        if m.world.script and not m.world.unfinished and not opened:
            m.add_fact(facts.OutputOnContext(holder=spot, birth=born))
