"""What loops go over, and what each turn gets."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check.machine import Machine
from tenure.check.values import Const, Map, Node, Num, Obj, Ref, Seq, Spot, Tensor, Value, best, join, read, tensors

TURNS = 2


def turns(m: Machine, iterable: Value, node: Any) -> int:
    """How many turns to follow."""
    iterable = best(iterable)
    if isinstance(iterable, Seq):
        iterable.state["ended"] = True  # a generator, if it is one
    if isinstance(iterable, Obj) and (children := _children(iterable)):
        return min(len(children), 4)
    if isinstance(iterable, Seq):
        if iterable.kind == "zip":
            known = [turns(m, one, node) for one in iterable.items]
            return min(known, default=0)
        if iterable.state.get("of") is not None and not iterable.items:
            return 1
        if iterable.rest is None:
            return min(len(iterable.items), 2 if len(m.loops) > 1 else 3) or (
                TURNS if iterable.state.get("grown") else 0
            )
        args = iterable.state.get("range")
        if args and all(isinstance(a, Const) for a in args):
            values = [a.value for a in args if isinstance(a.value, int)]
            count = len(range(*values)) if len(values) == len(args) and values and 0 not in values[2:] else TURNS
            return min(count, TURNS)
    if isinstance(iterable, Map) and iterable.rest is None and iterable.attrs:
        return min(len(iterable.attrs), TURNS)
    return TURNS


def next_element(m: Machine, iterable: Value, turn: int, target: ast.AST, source: ast.AST) -> Value:
    """What the loop's name is in a turn: known items one by one, otherwise something new each time."""
    iterable = best(iterable)
    if isinstance(iterable, (Seq, Map)):
        _taken(iterable)
    if isinstance(iterable, Obj) and (children := _children(iterable)):
        return children[min(turn, len(children) - 1)]
    if isinstance(iterable, Seq):
        if iterable.kind == "zip":
            parts = [next_element(m, best(one), turn, target, source) for one in iterable.items]
            if iterable.state.get("zip") == "enumerate":
                parts = [Num(varies=True), *parts]
            return m.seq("tuple", parts, target)
        if turn < len(iterable.items):
            item = iterable.items[turn]
            return item if iterable.kind != "generator" or not iterable.state.get("yielded") else fresh(m, item, target)
        if iterable.rest is not None:
            return fresh(m, iterable.rest, target)
        if iterable.items:
            return fresh(m, iterable.items[-1], target)
    if isinstance(iterable, Map):
        return Num(varies=True)
    return element(m, iterable, target)


def _taken(container: Value) -> None:
    """What is in a container is taken out, to be computed with."""
    read(container)
    for one in tensors(container):
        one.state["taken"] = True


def _children(value: Obj) -> list[Obj]:
    """The modules in a container of modules."""
    if value.cls is None and value.family == "torch.Module":
        return [v for v in value.attrs.values() if isinstance(v, Obj)]
    return []


def element(m: Machine, value: Value, node: ast.AST) -> Value:
    """Some element of a value."""
    value = best(value)
    if isinstance(value, (Seq, Map)):
        _taken(value)
    if isinstance(value, Seq):
        found = value.rest
        for item in value.items[:6]:
            found = item if found is None else join(found, item)
        if value.state.get("of") is not None and found is None:
            return parameter(m, value, node)
        return found if found is not None else m.unknown(node)
    if isinstance(value, Map):
        found = value.rest
        for item in list(value.attrs.values())[:6]:
            found = item if found is None else join(found, item)
        return found if found is not None else m.unknown(node)
    if isinstance(value, Tensor) and value.fw is not None:
        made = m.tensor(value.fw, node, op="select", parents=[value], store=value.store, view=True)
        made.flags = (value.flags - {"variable"}) | {"element"}
        made.trace = value.trace or made.trace
        made.leaf = False
        return made
    if isinstance(value, Obj) and value.kind == "loader":
        made = m.unknown(node)
        if value.state.get("workers"):
            made.flags = frozenset({"worker"})
        return made
    if isinstance(value, Obj) and value.cls is None and value.family == "torch.Module":
        inner = [v for v in value.attrs.values() if isinstance(v, Obj)]
        return inner[0] if inner else m.unknown(node)
    if isinstance(value, (Num, Ref)):
        return Num(varies=True)
    made = m.unknown(node)
    if isinstance(value, Tensor):
        made.flags = value.flags & {"worker"}
    return made


def parameter(m: Machine, params: Seq, node: ast.AST) -> Value:
    """A parameter of a module, met in `for p in model.parameters()`."""
    owner: Any = params.state.get("of")
    known = params.state.get("parameter")
    if known is None:
        known = m.tensor("torch", node, graph=False)
        known.leaf, known.flags = True, frozenset({"param"})
        known.state["owner"] = owner
        params.state["parameter"] = known
        if isinstance(owner, Obj):
            known = owner.state.setdefault("parameter", known)
    return known


def fresh(m: Machine, value: Value, node: ast.AST) -> Value:
    """A value of the same kind, but another one: what a generator gives next."""
    value = best(value)
    if isinstance(value, Tensor):
        made: Tensor = m.own(Tensor(value.fw, value.born))
        made.graph, made.leaf, made.trace, made.flags = value.graph, value.leaf, value.trace, value.flags
        made.varies, made.view, made.place = value.varies, value.view, value.place
        made.state["origin"] = value
        if value.node is not None:
            made.node = Node(value.node.op, value.node.born, value.node.parents, m.turn())
        return made
    if isinstance(value, Seq):
        copied = m.seq(value.kind, [fresh(m, one, node) for one in value.items], value.born.node)
        copied.rest = value.rest
        return copied
    if isinstance(value, Map):
        made_map: Map = m.own(Map(value.born))
        made_map.attrs = {key: fresh(m, one, node) for key, one in value.attrs.items()}
        made_map.rest = value.rest
        return made_map
    return value


def loop_kind(m: Machine, iterable: Value) -> str:
    """`graph` if AutoGraph makes a loop of the graph out of it."""
    value = best(iterable)
    sources = value.items if isinstance(value, Seq) and value.kind == "zip" else [value]
    for one in sources:
        if isinstance(one, Obj) and _children(one):
            return "parts"
        if isinstance(one, Seq) and (one.state.get("of") is not None or one.state.get("modules")):
            return "parts"
    inside_tf = any(t.framework == "tf" for t in m.traces)
    if inside_tf and isinstance(value, Tensor) and value.fw == "tf":
        return "graph"
    return "graph" if inside_tf and isinstance(value, Obj) and value.kind == "dataset" else "python"


def while_kind(m: Machine, condition: Value) -> str:
    """The same for `while`."""
    return loop_kind(m, condition)


__all__ = ["Spot", "element", "fresh", "next_element", "turns"]
