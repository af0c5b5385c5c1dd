"""What is kept: values put where they outlive the turn of a loop that made them. Judged when the program is at its end."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from tenure.check import autograd, cycles
from tenure.check.machine import Loop, Machine
from tenure.check.values import (
    Class,
    Const,
    Func,
    Map,
    Maybe,
    Node,
    Num,
    Obj,
    Seq,
    Spot,
    Tensor,
    Value,
    Wrapped,
    best,
    inside,
    options,
    tensors,
)  # fmt: skip


@dataclass(slots=True)
class Held:
    """A value in a container, an attribute or a sum that outlives a loop's turn."""

    kind: str
    value: Any
    holder: Any
    spot: Spot
    loop: Loop | None
    data: Any = None


def outlived(m: Machine, holder: Any) -> Loop | None:
    """The outermost loop that `holder` outlives, if there is one."""
    inside_ = getattr(holder, "loops", ())
    for loop in m.loops:
        if loop.uid not in inside_ and loop.kind != "parts":
            return loop
    return None


def stored(m: Machine, container: Seq | Map, key: Value, value: Value, node: ast.AST) -> None:
    """A value is put into a container."""
    spot = m.spot(node)
    if m.world.get("thread") is not None:
        return  # what a thread leaves behind is told where it is started
    loop = outlived(m, container)
    if container.state.get("bounded"):
        return
    expressions(m, node, value)
    whole = best(value)
    waits = isinstance(whole, Seq) and whole.state.get("yielded")  # it holds its own names, not what it will give
    for one in [whole] if waits else inside(value):
        if isinstance(one, Tensor):
            if one.node is not None and not (isinstance(container, Map) and isinstance(key, Const)):
                one.node.state["contained"] = True
            _tensor_stored(m, container, key, one, spot, loop, value)
        elif isinstance(one, Obj):
            one.state["stored"] = True
            _object_stored(m, container, one, spot, loop)
            cycles.stored(m, container, one, node)
        elif isinstance(one, Seq) and one.state.get("frame") and loop is not None:
            for kept in one.state["frame"]:
                m.held.append(Held("generator", kept, container, spot, loop, one))
        elif isinstance(one, (Func, Wrapped)) and loop is not None:
            for captured in captures(m, one):
                m.held.append(Held("closure", captured, container, spot, loop, one))
    if isinstance(container, Map):
        _keyed(m, container, key, value, spot)


def expressions(m: Machine, node: ast.AST, value: Value) -> list[tuple[ast.expr, Value]]:
    """The expressions of what is stored, with their values: several, if it is a tuple or a dict as written."""
    arg: Any = None
    if isinstance(node, ast.Call) and node.args:
        arg = node.args[-1]
    elif isinstance(node, ast.AugAssign):
        arg = node.value
    one = best(value)
    if isinstance(arg, (ast.Tuple, ast.List)) and isinstance(one, Seq) and len(one.items) == len(arg.elts):
        pairs = list(zip(arg.elts, one.items, strict=True))
    elif isinstance(arg, ast.Dict) and isinstance(one, Map) and len(one.attrs) == len(arg.values):
        pairs = list(zip(arg.values, one.attrs.values(), strict=True))
    else:
        pairs = [(arg, value)] if arg is not None else []
    simple = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
    plain = m.world.setdefault("plain", set())
    plain.update(id(e) for e, v in pairs if not isinstance(v, Tensor))
    return [(e, v) for e, v in pairs if isinstance(e, simple) and isinstance(v, Tensor)]


def _tensor_stored(
    m: Machine, container: Seq | Map, key: Value, one: Tensor, spot: Spot, loop: Loop | None, value: Value
) -> None:
    shared = one.store.state.get("shared")
    if loop is None or m.traces:
        return
    hook = m.world.get("hook")
    if hook is not None:
        if any("grad" in marks for marks in m.world.get("guards", ())):
            return
        one.state["no grad at store"] = m.grad[-1] != "grad"
        if _counted(m, spot.node, key):
            container.state["counted"] = True
        m.held.append(Held("hook", one, container, spot, loop, hook))
        return
    if isinstance(container, Map) and isinstance(key, Const):
        return  # the next turn replaces it
    if isinstance(container, Map) and not _differs(key):
        return
    if shared is not None:
        m.held.append(Held("shared", one, container, spot, loop, (shared, m.clock)))
    if one.fw in ("torch", "np") and not one.graph:
        m.held.append(Held("again", one, container, spot, loop, m.clock))
    if "worker" in one.flags:
        m.held.append(Held("worker", one, container, spot, loop))
    if "grad" in one.flags:
        m.held.append(Held("grad", one, container, spot, loop))
    elif one.view and not one.graph and one.fw in ("torch", "np"):
        m.held.append(Held("view", one, container, spot, loop))
    elif one.fw in ("tf", "jax") and one.trace is None:
        m.held.append(Held("device", one, container, spot, loop, {"clock": m.clock}))
    if one.fw in (None, "torch"):
        m.held.append(Held("graph", one, container, spot, loop, expressions(m, spot.node, value)))


def comprehended(m: Machine, node: Any, items: list[Value], loop: Loop) -> None:
    """`[step(x) for x in data]`: results whose backward pass is done already keep its graph."""
    if isinstance(node, ast.GeneratorExp):
        return
    for one in (t for value in items for t in tensors(value)):
        freed = one.node is not None and isinstance(one.node.state.get("freed"), Spot)
        if freed and loop.uid in one.node.state.get("freed in", ()):  # type: ignore[union-attr]
            at = m.spot(getattr(node, "elt", getattr(node, "value", node)))
            m.held.append(Held("graph", one, m.seq("list", [], node), at, loop))


def _counted(m: Machine, node: Any, key: Value) -> bool:
    """`seen[self.count] = x`, of a count that goes on: not the name of a layer, of which there are few."""
    at = getattr(node, "slice", None)
    shared = m.frame.globals | m.frame.nonlocals
    return _differs(key) and (isinstance(at, ast.Attribute) or (isinstance(at, ast.Name) and at.id in shared))


def _differs(key: Value) -> bool:
    return any(isinstance(k, Num) and (k.varies or k.of is not None) for k in inside(key)) or isinstance(
        key, (Tensor, Obj)
    )


def alias_kept(m: Machine, value: Value, spot: Spot) -> None:
    """`x = model.state_dict()`: what is kept is the model's own weights."""
    for one in options(value):
        if isinstance(one, Map) and one.state.get("alias of") is not None and m.loops:
            m.held.append(Held("alias", one, None, spot, m.loops[0], m.clock))


def model_aliased(m: Machine, value: Value, node: ast.Assign) -> None:
    """`best = model` now and then, while the model is trained on: both stay one."""
    one = best(value)
    if isinstance(one, Obj) and one.family == "torch.Module":
        m.held.append(Held("model alias", one, None, m.spot(node), m.loops[0], m.clock))


def exception_bound(m: Machine, value: Obj, node: ast.AST) -> None:
    """`last = error` in a loop: the name keeps it into the next turn."""
    if value.state.get("tensors") and m.loops and m.world.get("handlers"):
        m.tell("exception kept", [("holder", m.spot(node)), ("birth", value.born)], container=False)


def _object_stored(m: Machine, container: Seq | Map, one: Obj, spot: Spot, loop: Loop | None) -> None:
    if one.kind == "exception":
        handlers = m.world.get("handlers", [])
        if handlers and one.state.get("tensors"):
            m.tell("exception kept", [("holder", spot), ("birth", one.born)], container=True)
    elif one.kind == "tape" and loop is not None:
        m.tell("tape kept", [("holder", spot), ("birth", one.born)])
    elif one.kind == "optimizer" and loop is not None:
        m.held.append(Held("optimizer", one, container, spot, loop, bool(one.state.get("stepped in loop"))))


def _keyed(m: Machine, container: Map, key: Value, value: Value, spot: Spot) -> None:
    """Look at a dict used as a cache: what it is keyed by, and whether it grows."""
    found = tensors(value)
    if not found:
        return
    for part in inside(key):
        if isinstance(part, Num) and isinstance(part.of, Tensor):
            of = part.of
            held = any(t is of or t.store is of.store for t in found)
            temporary = of.fw is not None and not of.leaf and not {"param", "buffer", "module"} & of.flags
            if not held and temporary and of.loops and container is not None and outlived(m, container):
                m.tell("address as key", [("holder", spot), ("birth", of.born)], how="id")
    known = container in m.frame.names.values()
    if known or not m.calls:
        return
    loop = outlived(m, container)
    if not container.state.get("tested"):
        return
    if loop is not None and (
        _differs_in_turns(container, key) or any(isinstance(k, Num) and k.varies for k in inside(key))
    ):
        concrete = [t for t in found if t.fw is not None]
        if concrete and not m.traces:
            m.held.append(Held("cache", concrete[0], container, spot, loop))
    elif loop is not None:
        container.state.setdefault("keys", []).append(_shape_of(key))


def _shape_of(key: Value) -> Any:
    parts = [k.value if isinstance(k, Const) else None for k in inside(key)]
    return tuple(parts)


def _differs_in_turns(container: Map, key: Value) -> bool:
    earlier = container.state.get("keys", [])
    now = _shape_of(key)
    different = [k for k in earlier if k != now and any(p is not None and not isinstance(p, str) for p in k)]
    return bool(different) and any(p is not None and not isinstance(p, str) for p in now)


def drained(m: Machine, value: Value) -> None:
    """Something is taken out of a container."""
    one = best(value)
    if isinstance(one, (Seq, Map)):
        one.state["drained"] = m.world.get("hook") or True
        if m.traces:
            one.state["drained_in"] = m.traces[-1]


def captures(m: Machine, function: Value) -> list[Tensor]:
    """The tensors that a function closes over, not counting those of the module's top level."""
    found: list[Tensor] = []
    while isinstance(function, Wrapped):
        if function.kind == "partial":
            given = [*function.options["args"], *function.options["kwargs"].values()]
            found.extend(t for value in given for t in tensors(value) if t.fw is not None)
        function = function.inner
    if not isinstance(function, Func):
        return found
    for part in free_names(function.node) if function.frame is not None else ():
        frame = function.frame
        while frame is not None:
            value = frame.names.get(part)
            if value is not None:
                found.extend(t for t in tensors(value) if t.fw is not None)
                break
            frame = frame.outer
    for default in function.defaults.values():
        found.extend(t for t in tensors(default) if t.fw is not None)
    return found


def free_names(node: Any) -> set[str]:
    """The names that a function takes from outside."""
    known = getattr(node, "tenure_free", None)
    if known is None:
        bound = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        used: set[str] = set()
        body = node.body if isinstance(node.body, list) else [node.body]
        for part in body:
            for one in ast.walk(part):
                if isinstance(one, ast.Name):
                    (used if isinstance(one.ctx, ast.Load) else bound).add(one.id)
        known = node.tenure_free = used - bound
    return set(known)


def attribute_kept(m: Machine, owner: Obj, name: str, value: Value, node: ast.AST) -> None:
    """`self.x = value`, for what matters when it outlives a turn."""
    alias_kept(m, value, m.spot(node))
    for one in options(value):
        if isinstance(one, Obj):
            one.state["stored"] = True
        if isinstance(one, Tensor):
            one.state["written"] = m.spot(node)
            if m.loops and (one.graph or one.fw is None) and outlived(m, owner):
                m.world.setdefault("attribute writes", {})[id(owner), name] = (owner, name, m.spot(node))
        elif isinstance(one, Obj) and one.kind == "exception" and one.state.get("tensors"):
            m.tell("exception kept", [("holder", m.spot(node)), ("birth", one.born)], container=False)


def after_loop(m: Machine, loop: Loop) -> None:
    """Note the sums and states that the loop has carried from turn to turn, with their graphs."""
    if m.grad[-1] != "grad":
        return
    slots: list[tuple[Any, Spot, Any]] = []
    for name, value in m.frame.names.items():
        for one in options(value):
            if isinstance(one, Tensor) and one.node is not None and one.fw in ("torch", None):
                slots.append((one, one.born, name))  # noqa: PERF401
    for owner, name, spot in list(m.world.get("attribute writes", {}).values()):
        for one in options(owner.attrs.get(name, Const(None))):
            if isinstance(one, Tensor) and one.node is not None:
                slots.append((one, spot, owner))  # noqa: PERF401
    for one, spot, holder in slots:
        if one.loops and loop.uid in one.loops and autograd.turns_of(one.node, loop.uid) >= {0, 1}:
            outermost = loop is m.loops[0] and not m.conditions
            m.held.append(Held("carried", one, holder, spot, loop, m.clock if outermost else None))


def cached_call(m: Machine, wrapped: Wrapped, args: list[Value], result: Value, node: ast.AST) -> None:
    """A call of a function with `lru_cache`."""
    inner = wrapped.inner
    own = [inner.bound] if isinstance(inner, Func) and isinstance(inner.bound, Obj) and inner.bound.loops else []
    for arg in [*own, *args]:
        for one in inside(arg):
            module = isinstance(one, Obj) and one.family == "torch.Module"
            array = isinstance(one, Tensor) and one.fw is not None and "element" not in one.flags
            if (module or array) and (m.loops or m.calls):
                local = bool(getattr(one, "loops", ())) or m.loops
                if local:
                    m.held.append(Held("lru", one, wrapped, m.spot(node), m.loops[0] if m.loops else None))
                return
    limit = wrapped.options.get("maxsize", 128)
    varies = any(isinstance(v, Num) and v.varies for arg in args for v in inside(arg))
    known = [t for t in tensors(result) if t.fw is not None and t.trace is None]
    if limit is None and varies and known and m.loops:
        m.held.append(Held("lru", known[0], wrapped, m.spot(node), m.loops[0]))


__all__ = ["Class", "Held", "Maybe", "Node", "after_loop", "captures", "stored"]
