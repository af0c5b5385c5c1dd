"""Objects of the checked code and their attributes: what is put on them, and what is found there."""

from __future__ import annotations

import ast
from dataclasses import replace

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Func, Map, Obj, Seq, Tensor, Value, Wrapped, WrappedState
from tenure.check.language.classes import fields, is_sequential, is_tuple
from tenure.check.language.iteration import element, parameter
from tenure.check.lifetimes import cycles, escapes, graphs, optimizer_groups, retention, storages
from tenure.check.lifetimes.graphs import thawed
from tenure.check.lifetimes.retention import drained
from tenure.check.value_queries import best, join, options, tensors


def tensor_attribute_set(m: Interpreter, owner: Tensor, name: str, value: Value, node: ast.AST) -> None:
    """`tensor.name = value`."""
    if name == "requires_grad":
        thawed(m, owner, wanted=isinstance(value, Const) and value.value is True)
    if name == "grad":
        if isinstance(value, Const) and value.value is None:
            m.world.grads_cleared = True
            m.world.cleared_modules.append(owner.state.owner)
        else:
            m.set_state(owner.state, "grad_value", value)
    if name == "data":
        storages.filled(m, owner)
    if owner.fw is None:
        escapes.escape(m, [value])


def attribute_set(m: Interpreter, owner: Obj, name: str, value: Value, node: ast.AST) -> None:
    """`object.name = value`."""
    retention.attribute_kept(m, owner, name, value, node)
    for trace in m.traces:
        m.world.attributes_set.setdefault((id(owner), name, id(trace)), m.clock)
    cycles.attribute_set(m, owner, value, node)
    if owner.family == "torch.Module" and isinstance(best(value), (Obj, Tensor)) and name in owner.attrs:
        _replaced(m, owner, name, value, node)
    old = best(owner.attrs.get(name, NONE))
    if isinstance(old, (Seq, Map)) and m.calls and not any(one is old for one in options(value)):
        drained(m, old)
    for one in options(value):
        if isinstance(one, (Seq, Map)):
            one.state.attributes |= {name}


def _replaced(m: Interpreter, owner: Obj, name: str, value: Value, node: ast.AST) -> None:
    new, old = best(value), best(owner.attrs[name])
    module = isinstance(new, Obj) and new.family == "torch.Module" and isinstance(old, Obj) and new is not old
    parameter_ = isinstance(new, Tensor) and "param" in new.flags and isinstance(old, Tensor) and "param" in old.flags
    if not (module or parameter_):
        return
    if isinstance(new, Obj) and any(part is old for part in graphs.parts(new)):
        return
    m.world.replaced.add(id(old))
    for optimizer in m.world.optimizers:
        owned = {id(x) for top in optimizer.state.modules for x in graphs.parts(top)}
        if id(owner) in owned or id(old) in owned:
            m.set_state(optimizer.state, "stale", (m.spot(node), old))


def leaf_replaced(m: Interpreter, node: ast.Assign, value: Value) -> None:
    """`w = w.detach().requires_grad_()`: an optimizer that was made for the old one goes on with it."""
    name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
    old = m.frame.names.get(name)
    if not (isinstance(old, Tensor) and old.leaf and isinstance(value, Tensor) and value.leaf and value is not old):
        return
    if not any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node.value)):
        return
    for optimizer in m.world.optimizers:
        if any(one is old for one in optimizer.state.tensors):
            m.set_state(optimizer.state, "stale", (m.spot(node.targets[0]), old))


def attribute_read(m: Interpreter, owner: Obj, name: str, value: Value, node: ast.AST) -> None:
    """An object's attribute is read."""
    if m.traces or isinstance(best(value), (Tensor, Seq, Map)):
        m.world.attribute_reads.setdefault((id(owner), name), []).append((m.clock, m.traces))


def bind_wrapped(m: Interpreter, wrapped: Wrapped, owner: Obj, node: ast.AST) -> Value:
    """A method that a decorator wrapped."""
    inner = wrapped.inner
    bound: Value = (
        inner.bind(owner)
        if isinstance(inner, Func)
        else bind_wrapped(m, inner, owner, node)
        if isinstance(inner, Wrapped)
        else inner
    )
    made = Wrapped(wrapped.kind, bound, wrapped.born, replace(wrapped.options, unbound=True))
    made.loops, made.state = wrapped.loops, wrapped.state if wrapped.kind != "trace" else WrappedState()
    if wrapped.kind == "property":
        m.world.guards.append({"first"})
        try:
            value = m.call(bound, [], {}, node)
        finally:
            m.world.guards.pop()
        if m.traces and m.traces[-1] not in owner.traces and not owner.state.sample:
            for one in tensors(value):
                if one.trace in m.traces and one.trace is not None:
                    m.add_fact(
                        facts.CachedTracer(birth=one.born, escape=wrapped.born, use=m.spot(node), how=one.trace.how)
                    )
                    break
        if not m.traces and isinstance(inner, Func):
            m.put(owner.attrs, inner.name, value)  # computed once
        return value
    return made


def merge_map(m: Interpreter, made: Map, value: Value) -> None:
    """`{**value}`."""
    one = best(value)
    if isinstance(one, Map):
        made.attrs.update(one.attrs)
        made.rest = one.rest if made.rest is None else made.rest
        made.state.key = one.state.key
    elif isinstance(one, Seq) and one.kind == "zip" and len(one.items) == 2 and one.state.zip != "enumerate":
        made.rest = element(m, one.items[1], made.born.node)
    else:
        made.rest = m.unknown(made.born.node)


def object_item(m: Interpreter, owner: Obj, key: Value, node: ast.AST) -> Value:
    """`object[key]`."""
    own = owner.cls.find("__getitem__") if owner.cls is not None else None
    if isinstance(own, Func):
        return m.call_function(own.bind(owner), [key], {}, node)
    if is_tuple(owner) and isinstance(key, Const) and isinstance(key.value, int):
        items = list(owner.attrs.values())
        return items[key.value] if -len(items) <= key.value < len(items) else m.unknown(node)
    if owner.family == "torch.Module" and owner.cls is None:
        inner = [v for v in owner.attrs.values() if isinstance(v, Obj)]
        if isinstance(key, Const) and isinstance(key.value, int) and -len(inner) <= key.value < len(inner):
            return inner[key.value]
        return inner[0] if inner else m.unknown(node)
    return m.unknown(node)


def object_item_set(m: Interpreter, owner: Obj, key: Value, value: Value, node: ast.AST) -> None:
    """`object[key] = value`."""
    if isinstance(inner := owner.attrs.get("<container>"), (Seq, Map)) and not isinstance(
        owner.cls.find("__setitem__") if owner.cls is not None else None, Func
    ):
        retention.stored(m, inner, key, value, node)
        m.note_write(inner, "rest", value, m.spot(node), inner)
        inner.rest = value if inner.rest is None else join(value, inner.rest)
        return
    if owner.kind == "optimizer state":
        optimizer_groups.state_set(m, key, node)
    if owner.kind == "weak map":
        held_weakly(m, value, node)
        return
    own = owner.cls.find("__setitem__") if owner.cls is not None else None
    if isinstance(own, Func):
        m.call_function(own.bind(owner), [key, value], {}, node)
        return
    if owner.family == "torch.Module" and owner.cls is None and isinstance(key, Const):
        names = list(owner.attrs)
        if isinstance(key.value, int) and -len(names) <= key.value < len(names):
            _replaced(m, owner, names[key.value], value, node)
            m.put(owner.attrs, names[key.value], value)
            return
    for name in owner.attrs if owner.family == "torch.Module" and owner.cls is None else ():
        m.put(owner.attrs, name, m.unknown(node))  # any of them was replaced
    m.note_write(owner.attrs, "?", value, m.spot(node), owner)
    escapes.escape(m, [value])


def held_weakly(m: Interpreter, value: Value, node: ast.AST) -> None:
    """A tensor that the same statement computes is put where only a weak reference keeps it."""
    one = best(value)
    if not (isinstance(one, Tensor) and one.fw is not None and one.born.module is m.frame.module):
        return
    made, written = one.born.node, (node.lineno, node.end_col_offset)  # type: ignore[attr-defined]
    here = (getattr(made, "lineno", 0), getattr(made, "col_offset", 0)) > written and made.lineno <= written[0] + 1  # type: ignore[attr-defined]
    if here and one.born.function == m.frame.function and not {"param", "element"} & one.flags:
        m.add_fact(facts.WeaklyHeld(holder=m.spot(node), birth=one.born))


def framework_made(m: Interpreter, made: Obj, args: list[Value], kwargs: dict[str, Value]) -> None:
    """An object of a class that inherits its constructor from a framework."""
    for number, arg in enumerate(args):
        made.attrs[str(number)] = arg
    made.attrs.update(kwargs)


def inherited(m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`super().name(…)`, of a class that is not in the checked code."""
    me = m.frame.names.get("self")
    if not isinstance(me, Obj) or not is_sequential(me):
        return NONE
    if name == "__init__":
        framework_made(m, me, args, {})
    return m.call_library_object(me, args, kwargs, node) if name in ("forward", "__call__") else NONE


def dataclass_made(m: Interpreter, made: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> None:
    """An object of a class without constructor: its annotated names in order, their defaults, and `__post_init__`."""
    assert made.cls is not None
    names = fields(made.cls)
    made.attrs.update(zip(names, args, strict=False))
    made.attrs.update(kwargs)
    for name in names:
        default = made.cls.find(name)
        if name not in made.attrs and default is not None:
            factory = isinstance(default, Obj) and default.kind == "dataclass field"
            made.attrs[name] = _default(m, default, node) if factory else default
    after = made.cls.find("__post_init__")
    if isinstance(after, Func):
        m.call_function(after.bind(made), [], {}, node)


def _default(m: Interpreter, field: Value, node: ast.AST) -> Value:
    """What `field(default_factory=list)` gives a new object."""
    assert isinstance(field, Obj)
    factory = field.state.factory
    if factory is not None:
        return m.call(factory, [], {}, node)
    default = field.state.default
    return default if default is not None else m.unknown(node)


def params_method(m: Interpreter, owner: Seq, name: str, args: list[Value], node: ast.AST) -> Value | None:
    """A method of something that is only nearly a list."""
    if owner.state.of is not None:
        return parameter(m, owner, node)
    return None


def tuple_method(m: Interpreter, owner: Obj, name: str, kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """A method that every named tuple has."""
    if not is_tuple(owner):
        return None
    if name == "_asdict":
        made: Map = m.own(Map(m.spot(node)))
        made.attrs = {("k", key): value for key, value in owner.attrs.items()}
        return made
    if name == "_replace":
        other = m.obj(owner.kind, node, owner.cls)
        other.attrs = {**owner.attrs, **kwargs}
        return other
    return None
