"""`with`: modes of autograd, sessions, tapes, graphs, scopes, and traces, which have an end as well."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tenure.check import effects
from tenure.check.machine import Machine, Trace
from tenure.check.values import Const, Func, Obj, Ref, Seq, Tensor, Value, best, inside


def enter(m: Machine, value: Value, node: ast.expr) -> tuple[Value, Callable[[], None] | None]:
    """What `as` gives, and what is to be done at the end of the block."""
    value = best(value)
    if _expects_an_error(node):
        m.muted += 1
        return value, lambda: _unmute(m)
    if isinstance(value, Obj):
        kind = value.kind
        if kind == "grad_mode":
            m.grad.append(str(value.state["mode"]))
            return value, _leaving_mode(m)
        if kind in _ENTER:
            return _ENTER[kind](m, value, node)
        if value.cls is not None:
            return _own_class(m, value, node)
        return value, None
    if isinstance(value, Seq) and value.kind == "generator" and value.state.get("yielded"):
        return value.rest if value.rest is not None else m.unknown(node), None
    if isinstance(value, Ref):
        mode = {"torch.no_grad": "no_grad", "torch.inference_mode": "inference", "torch.enable_grad": "grad"}.get(
            value.name
        )
        if mode:
            m.grad.append(mode)
            return value, _leaving_mode(m)
    if isinstance(value, Tensor) and value.fw is None:
        # A lock, a file, a timer: it may be anything, and it may give itself.
        return m.unknown(node), None
    return value, None


def _expects_an_error(node: ast.expr) -> bool:
    """`pytest.raises(…)`, `self.assertRaises(…)`, `suppress(…)`: what is done inside is meant to fail."""
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else name
    return name.startswith("assertRaises") or name in ("raises", "suppress")


def _unmute(m: Machine) -> None:
    m.muted -= 1


def _leaving_mode(m: Machine) -> Callable[[], None]:
    def leave() -> None:
        m.grad.pop()

    return leave


def _own_class(m: Machine, value: Obj, node: ast.expr) -> tuple[Value, Callable[[], None] | None]:
    from tenure.check.calls import call_function

    entered: Value = value
    begin = value.cls.find("__enter__") if value.cls else None
    if isinstance(begin, Func):
        entered = call_function(m, begin.bind(value), [], {}, node)
    end = value.cls.find("__exit__") if value.cls else None

    def leave() -> None:
        if isinstance(end, Func):
            call_function(m, end.bind(value), [Const(None)] * 3, {}, node)

    return entered, leave


def _session(m: Machine, value: Obj, node: ast.expr) -> tuple[Value, Callable[[], None]]:
    stack = m.world.setdefault("sessions", [])
    stack.append(value)
    graphs = m.world.setdefault("graphs", [])
    own = value.state.get("graph") or (value.state.get("home") if not value.state.get("given") else None)
    if own is not None:
        graphs.append(own)

    def leave() -> None:
        stack.remove(value)
        if own is not None:
            graphs.remove(own)
        if not value.state.get("as_default"):
            m.put(value.state, "closed", m.spot(node))

    return value, leave


def _graph(m: Machine, value: Obj, node: ast.expr) -> tuple[Value, Callable[[], None]]:
    graphs = m.world.setdefault("graphs", [])
    target = value.state.get("graph", value)
    graphs.append(target)
    return target, lambda: graphs.remove(target)


def _tape(m: Machine, value: Obj, node: ast.expr) -> tuple[Value, Callable[[], None]]:
    m.world.setdefault("tapes", []).append(value)

    def leave() -> None:
        m.world["tapes"].remove(value)
        value.state["ended at"] = m.clock

    return value, leave


def _variable_scope(m: Machine, value: Obj, node: ast.expr) -> tuple[Value, Callable[[], None]]:
    stack = m.world.setdefault("variable_scopes", [])
    stack.append(value)
    return value, lambda: stack.remove(value)


def _init_scope(m: Machine, value: Obj, node: ast.expr) -> tuple[Value, Callable[[], None]]:
    before, m.traces = m.traces, ()

    def leave() -> None:
        m.traces = before

    return value, leave


def _tenure_scope(m: Machine, value: Obj, node: ast.expr) -> tuple[Value, Callable[[], None]]:
    stack = m.world.setdefault("scopes", [])
    born: list[Tensor] = []
    stack.append((value, born))
    value.state["born"] = born

    def leave() -> None:
        stack.pop()
        for one in born:
            if not one.state.get("kept"):
                m.put(one.state, "released", ("released", m.spot(node), one))

    return value, leave


def _lock(m: Machine, value: Obj, node: ast.expr) -> tuple[Value, Callable[[], None]]:
    m.world["locks"] = m.world.get("locks", 0) + 1

    def leave() -> None:
        m.world["locks"] -= 1

    return value, leave


_ENTER: dict[str, Callable[[Machine, Obj, ast.expr], tuple[Value, Callable[[], None]]]] = {
    "session": _session,
    "session_default": lambda m, value, node: _session(m, value.state["session"], node),
    "tf.Graph": _graph,
    "graph_default": _graph,
    "tape": _tape,
    "variable_scope": _variable_scope,
    "init_scope": _init_scope,
    "tenure_scope": _tenure_scope,
    "lock": _lock,
}


@contextmanager
def tracing(m: Machine, trace: Trace) -> Iterator[None]:
    """Follow something as it is traced; at the end, see what was left behind outside."""
    m.traces = (*m.traces, trace)
    grad = list(m.grad)
    m.grad.append("grad")
    try:
        yield
    finally:
        m.traces = m.traces[:-1]
        m.grad[:] = grad
        trace.ended = True
        _left_behind(m, trace)


def _left_behind(m: Machine, trace: Trace) -> None:
    if trace.kind == "keras":
        return
    # JAX traces every argument; tf.function leaves those that are no tensors alone, and vmap those that it does not map.
    surely = trace.framework == "jax" and not trace.how.endswith(("vmap", "pmap"))
    for holder, key, value, spot, owner in trace.writes:
        if isinstance(holder, dict):
            current = holder.get(key)
        elif isinstance(owner, Seq) and (owner.state.get("drained_in") is trace):
            continue
        else:
            current = value
        if current is None:
            continue
        for one in inside(current):
            if isinstance(one, Tensor) and one.trace is trace and (surely or "assumed" not in one.flags):
                effects.escaped(m, trace, one, spot, owner, str(key[1] if isinstance(key, tuple) else key))
                break
