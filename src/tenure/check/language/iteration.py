"""What loops go over, and what each turn gets."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Const, Func, Map, Node, Num, Obj, Ref, Seq, Spot, Tensor, Value
from tenure.check.language.classes import is_tuple
from tenure.check.lifetimes import graphs, tensor_slices
from tenure.check.value_queries import best, join, options, read, relate, tensors

TURNS = 2
_STEPS = 60  # of a graph that are copied


def as_sequence(m: Interpreter, value: Value, node: ast.AST) -> Value:
    """What an object of the checked code gives when it is gone through: its `__iter__`, or a named tuple's items."""
    if not isinstance(value, Obj) or value.cls is None:
        return value
    if is_tuple(value):
        return m.seq("tuple", list(value.attrs.values()), node)
    if isinstance(inner := value.attrs.get("<container>"), (Seq, Map)):
        return inner
    own = value.cls.find("__iter__")
    if isinstance(own, Func):
        made = best(m.call_function(own.bind(value), [], {}, node))
        if made is value or isinstance(made, Obj):
            step = made.cls.find("__next__") if made.cls is not None else None
            if not isinstance(step, Func):
                return m.unknown(node)
            found = m.seq("generator", [], node)
            found.rest = m.call_function(step.bind(made), [], {}, node)
            return found
        return made
    own = value.cls.find("__getitem__")
    if isinstance(own, Func) and value.cls.family != "torch.Module":
        found = m.seq("generator", [], node)
        found.rest = m.call_function(own.bind(value), [Num(varies=True)], {}, node)
        return found
    return value


def turns(m: Interpreter, iterable: Value, node: Any) -> int:
    """How many turns to follow."""
    iterable = best(iterable)
    if isinstance(iterable, Seq):
        iterable.state.ended = True  # a generator, if it is one
    if isinstance(iterable, Obj) and (children := _children(iterable)):
        return min(len(children), 4)
    if isinstance(iterable, Seq):
        if iterable.kind == "zip":
            known = [turns(m, one, node) for one in iterable.items]
            return min(known, default=0)
        if iterable.state.of is not None and not iterable.items:
            return 1
        if iterable.state.modules:
            return len(iterable.items)
        if iterable.rest is None and all(isinstance(one, Obj) for one in iterable.items):
            return min(len(iterable.items), 8) or (TURNS if iterable.state.grown else 0)
        if iterable.rest is None:
            return min(len(iterable.items), 2 if len(m.loops) > 1 else 3) or (TURNS if iterable.state.grown else 0)
        args = iterable.state.range
        if args and all(isinstance(a, Const) for a in args):
            values = [a.value for a in args if isinstance(a, Const) and isinstance(a.value, int)]
            count = len(range(*values)) if len(values) == len(args) and values and 0 not in values[2:] else TURNS
            return min(count, TURNS)
    if isinstance(iterable, Map) and iterable.rest is None and iterable.attrs:
        return min(len(iterable.attrs), 4)
    return TURNS


def count(iterable: Value) -> int | None:
    """How many iterations a loop over this has at most, where that is known."""
    iterable = best(iterable)
    if isinstance(iterable, Seq) and iterable.kind == "zip":
        known = [one for one in map(count, iterable.items) if one is not None]
        return min(known, default=None)
    if isinstance(iterable, Seq) and iterable.kind in ("list", "tuple") and iterable.rest is None:
        return None if iterable.state.grown or iterable.state.comprehension else len(iterable.items)
    args = iterable.state.range if isinstance(iterable, Seq) else None
    values = [a.value for a in args or () if isinstance(a, Const) and type(a.value) is int]
    if args and len(values) == len(args) and 0 not in values[2:]:
        return len(range(*values))
    if isinstance(iterable, Seq) and isinstance(written := iterable.born.node, (ast.List, ast.Tuple)):
        return len(written.elts) if iterable.rest is None and len(written.elts) == len(iterable.items) > 0 else None
    return None


def next_element(m: Interpreter, iterable: Value, turn: int, target: ast.AST, source: ast.AST) -> Value:
    """What the loop's name is in a turn: known items one by one, otherwise something new each time."""
    iterable = best(iterable)
    if isinstance(iterable, (Seq, Map)):
        _taken(iterable)
    if isinstance(iterable, Obj) and (children := _children(iterable)):
        return children[min(turn, len(children) - 1)]
    if isinstance(iterable, Seq):
        if iterable.kind == "zip":
            parts = [next_element(m, best(one), turn, target, source) for one in iterable.items]
            if iterable.state.zip == "enumerate":
                inner = best(iterable.items[0])
                modules = isinstance(inner, Obj) and bool(_children(inner))
                parts = [Const(turn) if modules else Num(varies=True, of=iterable), *parts]
            return m.seq("tuple", parts, target)
        if turn < len(iterable.items):
            item = iterable.items[turn]
            return item if iterable.kind != "generator" or not iterable.state.yielded else _yielded(m, item, target)
        if iterable.state.of is not None and isinstance(iterable.rest, Seq):
            return iterable.rest  # the name and the parameter itself
        if iterable.rest is not None:
            made = _yielded if iterable.state.yielded else fresh
            return made(m, iterable.rest, target)
        if iterable.items:
            return fresh(m, iterable.items[-1], target)
    if isinstance(iterable, Map):
        keys = [key[1] for key in iterable.attrs if key[0] == "k"]
        known = iterable.rest is None and turn < len(keys) == len(iterable.attrs)
        return Const(keys[turn]) if known else Num(varies=True)
    return element(m, iterable, target)


def _taken(container: Value) -> None:
    """What is in a container is taken out, to be computed with."""
    read(container)
    for one in tensors(container):
        one.state.taken = True


def _children(value: Obj) -> list[Obj]:
    """The modules in a container of modules."""
    if value.cls is None and value.family == "torch.Module":
        return [v for v in value.attrs.values() if isinstance(v, Obj)]
    return []


def element(m: Interpreter, value: Value, node: ast.AST) -> Value:
    """Some element of a value."""
    value = best(value)
    if isinstance(value, (Seq, Map)):
        _taken(value)
    if isinstance(value, Seq):
        found = value.rest
        for item in value.items[:6]:
            found = item if found is None else join(found, item)
        if value.state.of is not None and found is None:
            return parameter(m, value, node)
        if isinstance(found, Tensor) and found is value.rest:
            found.state.alternative = True  # read twice, it may be two
        return found if found is not None else m.unknown(node)
    if isinstance(value, Map):
        found = value.rest
        for item in list(value.attrs.values())[:6]:
            found = item if found is None else join(found, item)
        return found if found is not None else m.unknown(node)
    if isinstance(value, Tensor) and value.fw is not None:
        made = m.tensor(value.fw, node, op="select", parents=[value], store=value.store, view=True)
        made.view = value.fw != "np" or value.state.rows is not None  # an element of one dimension is a number
        made.flags = (value.flags - {"variable"}) | {"element"}
        made.trace = value.trace or made.trace
        made.leaf = False
        tensor_slices.small_part(made, value)
        return made
    if isinstance(value, Obj) and value.kind == "loader":
        made = m.unknown(node)
        if value.state.workers:
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


def parameter(m: Interpreter, params: Seq, node: ast.AST) -> Value:
    """A parameter of a module, met in `for p in model.parameters()`."""
    owner: Any = params.state.of
    known = params.state.parameter
    if known is None:
        known = m.tensor("torch", node, graph=False)
        known.leaf = not (isinstance(owner, Obj) and owner.state.frozen)
        known.flags = frozenset({"param", "any parameter"})
        known.state.owner = owner
        params.state.parameter = known
        if isinstance(owner, Obj):
            known = owner.state.parameter = owner.state.parameter or known
    return known


def _yielded(m: Interpreter, value: Value, node: ast.AST) -> Value:
    """What a generator gives in this iteration: if it went backward through a graph there, it did so in this one."""
    made = fresh(m, value, node)
    for old, new in zip(tensors(best(value)), tensors(made), strict=False):
        if old.node is not None and new.node is not None and isinstance(old.node.state.freed, Spot):
            new.node.state.freed, new.node.state.root = old.node.state.freed, old.node.state.root
            new.node.state.freed_in = (*old.node.state.freed_in, *m.loop_ids)
    for other in options(value):  # what another `yield` gives may be used in the same way
        for part in (
            [part for one in tensors(other) for part in graphs.closure(one.node)] if other is not best(value) else ()
        ):
            part.state.escaped = True
    return made


def _made_again(m: Interpreter, node: Node) -> Node:
    """The steps that another iteration of a loop that is over has made; those of its earlier iterations are shared."""
    over = any(uid not in m.loop_ids for uid, _ in node.turn)
    same = [one for one in graphs.closure(node) if one.turn == node.turn][:_STEPS] if over else [node]
    copies = {id(one): Node(one.op, one.born, one.parents, m.turn()) for one in same}
    for one in same:
        made = copies[id(one)]
        made.parents = tuple(copies.get(id(part), part) for part in one.parents)
        made.saves = one.saves and one is not node
        relate([one, made])
    return copies[id(node)]


def fresh(m: Interpreter, value: Value, node: ast.AST) -> Value:
    """A value of the same kind, but another one: what a generator gives next."""
    value = best(value)
    if isinstance(value, Tensor):
        made: Tensor = m.own(Tensor(value.fw, value.born))
        made.graph, made.leaf, made.trace, made.flags = value.graph, value.leaf, value.trace, value.flags
        made.varies, made.view, made.place = value.varies, value.view, value.place
        made.state.origin = value
        if value.node is not None:
            made.node = _made_again(m, value.node)
        return made
    if isinstance(value, Seq):
        copied = m.seq(value.kind, [fresh(m, one, node) for one in value.items], value.born.node)
        copied.rest, copied.state.origin = value.rest, value
        return copied
    if isinstance(value, Map):
        made_map: Map = m.own(Map(value.born))
        made_map.attrs = {key: fresh(m, one, node) for key, one in value.attrs.items()}
        made_map.rest = value.rest
        made_map.state.origin = value
        return made_map
    return value


def loop_kind(m: Interpreter, iterable: Value) -> str:
    """`graph` if AutoGraph makes a loop of the graph out of it."""
    value = best(iterable)
    sources = value.items if isinstance(value, Seq) and value.kind == "zip" else [value]
    for one in sources:
        if isinstance(one, Obj) and _children(one):
            return "parts"
        if isinstance(one, Seq) and (one.state.of is not None or one.state.modules):
            return "parts"
    inside_tf = any(t.framework == "tf" for t in m.traces)
    if inside_tf and isinstance(value, Tensor) and value.fw == "tf":
        perhaps_list = value.state.several or value.flags & {"assumed", "element of dataset"}
        return "python" if perhaps_list else "graph"
    return "graph" if inside_tf and isinstance(value, Obj) and value.kind == "dataset" else "python"


def while_kind(m: Interpreter, condition: Value) -> str:
    """The same for `while`."""
    return loop_kind(m, condition)
