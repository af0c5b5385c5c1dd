"""Objects of the checked code and their attributes: what is put on them, and what is found there."""

from __future__ import annotations

import ast

from tenure.check import autograd, cycles, effects, keeping
from tenure.check.iteration import parameter
from tenure.check.keeping import drained
from tenure.check.machine import Machine
from tenure.check.values import (
    NONE,
    Const,
    Func,
    Map,
    Obj,
    Seq,
    Tensor,
    Value,
    Wrapped,
    best,
    tensors,
)  # fmt: skip


def tensor_attribute_set(m: Machine, owner: Tensor, name: str, value: Value, node: ast.AST) -> None:
    """`tensor.name = value`."""
    if name == "requires_grad" and isinstance(value, Const) and value.value is True:
        owner.leaf = True
    if name == "grad":
        if isinstance(value, Const) and value.value is None:
            m.world["grads cleared"] = True
            module = owner.state.get("owner")
            if isinstance(module, Obj):
                module.state["grads cleared"] = m.clock
        else:
            m.put(owner.state, "grad value", value)
    if name == "data":
        m.put(owner.state, "data", value)


def attribute_set(m: Machine, owner: Obj, name: str, value: Value, node: ast.AST) -> None:
    """`object.name = value`."""
    keeping.attribute_kept(m, owner, name, value, node)
    cycles.attribute_set(m, owner, value, node)
    if owner.family == "torch.Module" and isinstance(best(value), (Obj, Tensor)) and name in owner.attrs:
        _replaced(m, owner, name, value, node)
    old = best(owner.attrs.get(name, NONE))
    if isinstance(old, (Seq, Map)) and m.calls:
        drained(m, old)


def _replaced(m: Machine, owner: Obj, name: str, value: Value, node: ast.AST) -> None:
    new, old = best(value), best(owner.attrs[name])
    module = isinstance(new, Obj) and new.family == "torch.Module" and isinstance(old, Obj) and new is not old
    parameter_ = isinstance(new, Tensor) and "param" in new.flags and isinstance(old, Tensor) and "param" in old.flags
    if not (module or parameter_):
        return
    if isinstance(new, Obj) and any(part is old for part in autograd.parts(new)):
        return
    for optimizer in m.world.get("optimizers", ()):
        owned = {id(x) for top in optimizer.state.get("modules", ()) for x in autograd.parts(top)}
        if id(owner) in owned or id(old) in owned:
            m.put(optimizer.state, "stale", (m.spot(node), old))


def leaf_replaced(m: Machine, old: Tensor, value: Value, node: ast.AST) -> None:
    """`w = w.detach().requires_grad_()`: an optimizer that was made for the old one goes on with it."""
    if not (isinstance(value, Tensor) and value.leaf and value is not old):
        return
    for optimizer in m.world["optimizers"]:
        if any(one is old for one in optimizer.state.get("tensors", ())):
            m.put(optimizer.state, "stale", (m.spot(node), old))


def attribute_read(m: Machine, owner: Obj, name: str, value: Value, node: ast.AST) -> None:
    """An object's attribute is read."""


def is_property(function: Func) -> bool:
    """Whether reading it calls it."""
    decorators = getattr(function.node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "property" for d in decorators)


def is_static(function: Func) -> bool:
    """Whether it takes no object."""
    decorators = getattr(function.node, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in decorators)


def bind_wrapped(m: Machine, wrapped: Wrapped, owner: Obj, node: ast.AST) -> Value:
    """A method that a decorator wrapped."""
    inner = wrapped.inner
    bound: Value = (
        inner.bind(owner)
        if isinstance(inner, Func)
        else bind_wrapped(m, inner, owner, node)
        if isinstance(inner, Wrapped)
        else inner
    )
    made = Wrapped(wrapped.kind, bound, wrapped.born, {**wrapped.options, "unbound": True})
    made.loops, made.state = wrapped.loops, wrapped.state if wrapped.kind != "trace" else {}
    if wrapped.kind == "property":
        from tenure.check.calls import call

        value = call(m, bound, [], {}, node)
        if m.traces and m.traces[-1] not in owner.traces and not owner.state.get("sample"):
            for one in tensors(value):
                if one.trace in m.traces and one.trace is not None:
                    m.tell(
                        "cached tracer",
                        [("birth", one.born), ("escape", wrapped.born), ("use", m.spot(node))],
                        how=one.trace.how,
                    )
                    break
        return value
    return made


def framework_attribute(m: Machine, owner: Obj, name: str, node: ast.AST) -> Value:
    """An attribute that comes with a framework's class."""
    from tenure.check import frameworks

    return frameworks.object_attribute(m, owner, name, node)


def merge_map(m: Machine, made: Map, value: Value) -> None:
    """`{**value}`."""
    one = best(value)
    if isinstance(one, Map):
        made.attrs.update(one.attrs)
        made.rest = one.rest if made.rest is None else made.rest
    else:
        made.rest = m.unknown(made.born.node)


def object_item(m: Machine, owner: Obj, key: Value, node: ast.AST) -> Value:
    """`object[key]`."""
    if owner.family == "torch.Module" and owner.cls is None:
        inner = [v for v in owner.attrs.values() if isinstance(v, Obj)]
        if isinstance(key, Const) and isinstance(key.value, int) and -len(inner) <= key.value < len(inner):
            return inner[key.value]
        return inner[0] if inner else m.unknown(node)
    return m.unknown(node)


def object_item_set(m: Machine, owner: Obj, key: Value, value: Value, node: ast.AST) -> None:
    """`object[key] = value`."""
    if owner.family == "torch.Module" and owner.cls is None and isinstance(key, Const):
        names = list(owner.attrs)
        if isinstance(key.value, int) and -len(names) <= key.value < len(names):
            _replaced(m, owner, names[key.value], value, node)
            m.put(owner.attrs, names[key.value], value)
            return
    m.note_write(owner.attrs, "?", value, m.spot(node), owner)
    effects.escape(m, [value])


def framework_made(m: Machine, made: Obj, args: list[Value], kwargs: dict[str, Value]) -> None:
    """An object of a class that inherits its constructor from a framework."""
    for number, arg in enumerate(args):
        made.attrs[str(number)] = arg
    made.attrs.update(kwargs)


def dataclass_made(m: Machine, made: Obj, args: list[Value], kwargs: dict[str, Value]) -> None:
    """An object of a class without constructor: its annotated names in order."""
    assert made.cls is not None
    names = [s.target.id for s in made.cls.node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
    made.attrs.update(zip(names, args, strict=False))
    made.attrs.update(kwargs)


def params_method(m: Machine, owner: Seq, name: str, args: list[Value], node: ast.AST) -> Value | None:
    """A method of something that is only nearly a list."""
    if owner.state.get("of") is not None:
        return parameter(m, owner, node)
    return None
