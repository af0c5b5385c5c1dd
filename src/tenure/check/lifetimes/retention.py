"""What is kept: values put where they outlive the turn of a loop that made them. Judged when the program is at its end."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import facts, kept
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Either, Func, Map, Num, Obj, Seq, Spot, Tensor, Value, Wrapped
from tenure.check.lifetimes import cycles, graphs
from tenure.check.lifetimes.random_numbers import is_drawn
from tenure.check.syntax import Loop, carried_names, free_names
from tenure.check.value_queries import best, inside, options, tensors


def outlived(m: Interpreter, holder: Any) -> Loop | None:
    """The outermost loop that `holder` outlives, if there is one."""
    inside_ = getattr(holder, "loops", ())
    for loop in m.loops:
        if loop.uid not in inside_ and loop.kind != "parts":
            return loop
    return None


def stored(m: Interpreter, container: Seq | Map, key: Value, value: Value, node: ast.AST) -> None:
    """A value is put into a container."""
    spot = m.spot(node)
    if m.world.thread is not None:
        return  # what remains of a thread is reported where it is started
    loop = outlived(m, container)
    if container.state.bounded:
        return
    expressions(m, node, value)
    whole = best(value)
    waits = isinstance(whole, Seq) and whole.state.yielded  # it holds its own names, not what it will give
    for one in [whole] if waits else _parts(value, loop):
        if isinstance(one, Tensor):
            if one.node is not None and not (isinstance(container, Map) and isinstance(key, Const)):
                one.node.state.contained = True
            _tensor_stored(m, container, key, one, spot, loop, value)
        elif isinstance(one, Obj):
            one.state.stored = True
            _object_stored(m, container, one, spot, loop)
            cycles.stored(m, container, one, node)
        elif isinstance(one, Seq) and one.state.frame_tensors and loop is not None:
            for own in one.state.frame_tensors:
                m.kept.append(kept.InGenerator(spot, loop, own, container, one))
        elif isinstance(one, (Func, Wrapped)) and loop is not None and not _written_again(container, key):
            for captured in captures(m, one):
                m.kept.append(kept.Captured(spot, loop, captured, container))
    if isinstance(container, Map):
        _keyed(m, container, key, value, spot)


def _parts(value: Value, loop: Loop | None) -> list[Value]:
    """What is stored with a value: the parts of containers, and the attributes of objects made in this iteration."""
    found: list[Value] = []
    waiting = inside(value)
    while waiting and len(found) < 60:
        one = waiting.pop(0)
        if any(one is have for have in found):
            continue
        found.append(one)
        if isinstance(one, Obj) and one.cls is not None and not one.family and loop and loop.uid in one.loops:
            waiting.extend(part for attr in one.attrs.values() for part in inside(attr))
    return found


def expressions(m: Interpreter, node: ast.AST, value: Value) -> list[tuple[ast.expr, Tensor]]:
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
    plain = m.world.plain
    plain.update(id(e) for e, v in pairs if not isinstance(v, Tensor))
    return [(e, v) for e, v in pairs if isinstance(e, simple) and isinstance(v, Tensor)]


def _tensor_stored(
    m: Interpreter, container: Seq | Map, key: Value, one: Tensor, spot: Spot, loop: Loop | None, value: Value
) -> None:
    shared = one.store.state.shared
    if loop is None or m.traces:
        return
    hook = m.world.hook
    if hook is not None:
        if any("grad" in marks for marks in m.world.guards):
            return
        one.state.no_grad_at_store = m.grad[-1] != "grad"
        if _counted(m, spot.node, key):
            container.state.counted = True
        m.kept.append(kept.ByHook(spot, loop, one, container, hook))
        return
    if isinstance(container, Map) and isinstance(key, Const):
        return  # the next turn replaces it
    if isinstance(container, Map) and not _differs(key, loop):
        return
    if shared is not None:
        m.kept.append(kept.SharedMemory(spot, loop, one, container, shared, m.clock))
    if one.fw in ("torch", "np") and not one.graph:
        m.kept.append(kept.SameBuffer(spot, loop, one, container, m.clock))
    if "worker" in one.flags:
        m.kept.append(kept.OfWorker(spot, loop, one, container))
    if "grad" in one.flags:
        m.kept.append(kept.Gradient(spot, loop, one, container))
    elif one.view and not one.graph and one.fw in ("torch", "np") and not isinstance(value, Either) and _one_of(m, one):
        m.kept.append(kept.View(spot, loop, one, container))
    elif one.fw in ("tf", "jax") and one.trace is None and one.place is None and "keras" not in one.flags:
        m.kept.append(kept.OnDevice(spot, loop, one, container, best(value)))
    if one.fw in (None, "torch"):
        inner = bool(m.modules) and any(container is have for have in m.frame.names.values())
        m.kept.append(kept.Graph(spot, loop, one, container, expressions(m, spot.node, value), inner))


def _written_again(container: Seq | Map, key: Value) -> bool:
    """`stash[i] = f`, of an `i` that begins anew in each iteration of a loop around: what was there is replaced."""
    of = key.of if isinstance(key, Num) and isinstance(container, Map) else None
    return isinstance(of, Seq) and bool(set(of.loops) - set(container.loops))


def _one_of(m: Interpreter, view: Tensor) -> bool:
    """Whether each of the views that are stored is of a buffer of its own: those of one buffer need it together."""
    base: Any = view
    while isinstance(base.state.base, Tensor):
        base = base.state.base
    return base is view or not m.loops or m.loops[-1].uid in base.loops


def comprehended(m: Interpreter, node: Any, items: list[Value], loop: Loop) -> None:
    """`[step(x) for x in data]`: results whose backward pass is done already keep its graph."""
    if isinstance(node, ast.GeneratorExp):
        return
    for one in (t for value in items for t in tensors(value)):
        freed = one.node is not None and isinstance(one.node.state.freed, Spot)
        if freed and loop.uid in one.node.state.freed_in:  # type: ignore[union-attr]
            at = m.spot(getattr(node, "elt", getattr(node, "value", node)))
            m.kept.append(kept.Graph(at, loop, one, m.seq("list", [], node)))


def _counted(m: Interpreter, node: Any, key: Value) -> bool:
    """`seen[self.count] = x`, of a count that goes on: not the name of a layer, of which there are few."""
    at = getattr(node, "slice", None)
    shared = m.frame.globals | m.frame.nonlocals
    return _differs(key, None) and (isinstance(at, ast.Attribute) or (isinstance(at, ast.Name) and at.id in shared))


def _differs(key: Value, loop: Loop | None) -> bool:
    """Whether the key of a dict is another one in each iteration: a number that changes, or an object made in the loop."""
    if isinstance(key, (Tensor, Obj)):
        return loop is None or loop.uid in key.loops
    return any(isinstance(k, Num) and (k.varies or k.of is not None) and not is_drawn(k) for k in inside(key))


def alias_kept(m: Interpreter, value: Value, spot: Spot) -> None:
    """`x = model.state_dict()`: what is kept is the model's own weights."""
    for one in options(value):
        if isinstance(one, Map) and one.state.alias_of is not None and m.loops:
            m.kept.append(kept.Weights(spot, m.loops[0], one, m.clock))


def model_aliased(m: Interpreter, value: Value, node: ast.Assign) -> None:
    """`best = model` now and then, while the model is trained on: both stay one."""
    one = best(value)
    if isinstance(one, Obj) and one.family == "torch.Module":
        m.kept.append(kept.ModelAlias(m.spot(node), m.loops[0], one, m.clock))


def best_so_far(m: Interpreter, target: ast.expr) -> bool:
    """`if score > self.score: self.model = model`: an attribute is set where something is better than before."""
    return isinstance(target, ast.Attribute) and bool(m.world.guards) and "compared" in m.world.guards[-1]


def exception_bound(m: Interpreter, value: Obj, node: ast.AST) -> None:
    """`last = error` in a loop: the name keeps it into the next turn."""
    if value.state.keeps_tensors and m.loops and m.world.handlers:
        m.add_fact(facts.ExceptionKept(holder=m.spot(node), birth=value.born))


def _object_stored(m: Interpreter, container: Seq | Map, one: Obj, spot: Spot, loop: Loop | None) -> None:
    if one.kind == "exception":
        handlers = m.world.handlers
        if handlers and one.state.keeps_tensors:
            m.add_fact(facts.ExceptionKept(holder=spot, birth=one.born))
    elif one.kind == "tape" and loop is not None:
        m.add_fact(facts.TapeKept(holder=spot, birth=one.born))
    elif one.kind == "optimizer" and loop is not None:
        m.kept.append(kept.Optimizer(spot, loop, one, container, bool(one.state.stepped_in_loop)))


def _keyed(m: Interpreter, container: Map, key: Value, value: Value, spot: Spot) -> None:
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
                m.add_fact(facts.AddressAsKey(holder=spot, birth=of.born))
    known = container in m.frame.names.values()
    if known or not m.calls:
        return
    loop = outlived(m, container)
    if not container.state.tested:
        return
    if loop is not None and (
        _differs_in_turns(container, key)
        or any(isinstance(k, Num) and k.varies and not is_drawn(k) for k in inside(key))
    ):
        concrete = [t for t in found if t.fw is not None]
        if concrete and not m.traces:
            m.kept.append(kept.CacheEntry(spot, loop, concrete[0], container))
    elif loop is not None:
        container.state.keys = (*container.state.keys, _shape_of(key))


def _shape_of(key: Value) -> Any:
    parts = [k.value if isinstance(k, Const) else None for k in inside(key)]
    return tuple(parts)


def _differs_in_turns(container: Map, key: Value) -> bool:
    earlier = container.state.keys
    now = _shape_of(key)
    different = [k for k in earlier if k != now and any(p is not None and not isinstance(p, str) for p in k)]
    return bool(different) and any(p is not None and not isinstance(p, str) for p in now)


def drained(m: Interpreter, value: Value) -> None:
    """Something is taken out of a container."""
    one = best(value)
    if isinstance(one, (Seq, Map)):
        one.state.drained = m.world.hook or True
        if m.traces:
            one.state.drained_in = m.traces[-1]


def captures(m: Interpreter, function: Value) -> list[Tensor]:
    """The tensors that a function closes over, not counting those of the module's top level."""
    found: list[Tensor] = []
    while isinstance(function, Wrapped):
        if function.kind in ("partial", "pullback"):
            given = [*function.options.args, *function.options.kwargs.values()]
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


def attribute_kept(m: Interpreter, owner: Obj, name: str, value: Value, node: ast.AST) -> None:
    """`self.x = value`, for what matters when it outlives a turn."""
    alias_kept(m, value, m.spot(node))
    owner.state.written = {**owner.state.written, name: m.spot(node)}
    for one in options(value):
        if isinstance(one, Obj):
            one.state.stored = True
        if isinstance(one, Tensor):
            one.state.written = m.spot(node)
            if m.loops and (one.graph or one.fw is None) and outlived(m, owner):
                m.note_slot(owner, name, m.spot(node))
        elif (
            isinstance(one, Obj) and one.kind == "exception" and one.state.keeps_tensors and not _raised_again(m, name)
        ):
            m.add_fact(facts.ExceptionKept(holder=m.spot(node), birth=one.born))


def _raised_again(m: Interpreter, name: str) -> bool:
    """Whether code raises the attribute again, as whoever waits for a thread does."""
    return any(
        isinstance(one, ast.Raise) and isinstance(one.exc, ast.Attribute) and one.exc.attr == name
        for one in ast.walk(m.frame.module.tree)
    )


def slot_written(m: Interpreter, container: Map, key: Any, value: Value, node: ast.AST) -> None:
    """`state[name] = value`, for states that the next iteration reads there."""
    if m.loops and outlived(m, container) and any(one.graph or one.fw is None for one in tensors(value)):
        m.note_slot(container, key, m.spot(node))


def _slot(owner: Any, name: Any) -> Value:
    if isinstance(owner, Tensor):
        return owner  # it was changed in place
    if isinstance(owner, Map) and name is None:
        return owner.rest or Const(None)
    found: Value = (owner if isinstance(owner, dict) else owner.attrs).get(name, Const(None))
    return found


def _is_state(value: Value) -> bool:
    """A tensor, or a tuple of them as recurrent layers return it."""
    return all(
        isinstance(one, (Tensor, Const)) or (isinstance(one, Seq) and one.kind == "tuple") for one in options(value)
    )


def after_loop(m: Interpreter, loop: Loop) -> None:
    """Note the sums and states that the loop has carried from turn to turn, with their graphs."""
    if m.grad[-1] != "grad":
        return
    slots: list[tuple[Any, Spot, Any]] = []
    names = carried_names(loop.node)
    for name, value in m.frame.names.items():
        for one in tensors(value) if name in names and _is_state(value) else ():
            if one.node is not None and one.fw in ("torch", None):
                slots.append((one, one.born, name))  # noqa: PERF401
    for owner, name, spot in list(m.slots.values()):
        for value in options(_slot(owner, name)):
            if isinstance(value, Tensor) and value.node is not None:
                slots.append((value, spot, owner))  # noqa: PERF401
    for one, spot, holder in slots:
        if (one is holder or loop.uid in one.loops) and graphs.turns_of(one.node, loop.uid) >= {0, 1}:
            outermost = loop is m.loops[0] and not m.conditions
            forward = _of_forward(m, spot.function)
            m.kept.append(kept.Carried(spot, loop, one, holder, m.clock if outermost else None, forward))


def _of_forward(m: Interpreter, name: str) -> bool:
    """Whether a method of the running module is what its forward pass calls."""
    me = best(m.frame.names.get("self", NONE))
    forward = me.cls.find("forward") if isinstance(me, Obj) and me.cls is not None else None
    if not isinstance(forward, Func):
        return False
    return name == "forward" or any(
        isinstance(one, ast.Attribute) and one.attr == name for one in ast.walk(forward.node)
    )


def cached_call(m: Interpreter, wrapped: Wrapped, args: list[Value], result: Value, node: ast.AST) -> None:
    """A call of a function with `lru_cache`."""
    inner = wrapped.inner
    own = [inner.bound] if isinstance(inner, Func) and isinstance(inner.bound, Obj) and inner.bound.loops else []
    for arg in [*own, *args]:
        for one in inside(arg):
            module = isinstance(one, Obj) and one.family == "torch.Module"
            array = isinstance(one, Tensor) and one.fw is not None and "element" not in one.flags
            if isinstance(one, (Obj, Tensor)) and (module or array) and (m.loops or m.calls):
                if one.loops or m.loops:
                    m.kept.append(kept.InFunctionCache(m.spot(node), m.loops[0] if m.loops else None, one, wrapped))
                return
    limit = wrapped.options.maxsize
    varies = any(isinstance(v, Num) and v.varies for arg in args for v in inside(arg))
    known = [t for t in tensors(result) if t.fw is not None and t.trace is None]
    if limit is None and varies and known and m.loops:
        m.kept.append(kept.InFunctionCache(m.spot(node), m.loops[0], known[0], wrapped))
