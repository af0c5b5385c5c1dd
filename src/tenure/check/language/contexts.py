"""`with`: modes of autograd, locks, scopes of tenure, own classes, and what libraries have."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tenure.check.abstract_interpreter import Entered, Interpreter
from tenure.check.abstract_values import Const, Func, Obj, Ref, Seq, Tensor, Value
from tenure.check.value_queries import best


def enter(m: Interpreter, value: Value, node: ast.expr) -> Entered:
    """What `as` gives, and what is to be done at the end of the block."""
    value = best(value)
    if _expects_an_error(node):
        m.muted += 1
        return value, lambda: _unmute(m)
    if isinstance(value, Obj):
        kind = value.kind
        if kind == "grad_mode":
            if value.state.before is not None:  # set_grad_enabled() has changed it already
                m.grad[-1], value.state.before = value.state.before, None
            m.grad.append(str(value.state.mode))
            return value, _leaving_mode(m)
        if kind in _ENTER:
            return _ENTER[kind](m, value, node)
        if (entered := m.enter_library(value, node)) is not None:
            return entered
        return _own_class(m, value, node) if value.cls is not None else (value, None)
    if isinstance(value, Seq) and value.kind == "generator" and value.state.yielded:
        return value.rest if value.rest is not None else m.unknown(node), None
    if isinstance(value, Ref):
        mode = {"torch.no_grad": "no_grad", "torch.inference_mode": "inference", "torch.enable_grad": "grad"}.get(
            value.name
        )
        if mode:
            m.grad.append(mode)
            return value, _leaving_mode(m)
    if isinstance(value, Tensor) and value.fw is None:
        # A lock, a file, a timer: it may be anything, it may give itself, and it may set a grad mode.
        session = any(word in ast.unparse(node).lower() for word in ("sess", "default"))
        m.world.unknown_contexts += 1
        m.world.unknown_sessions += session
        return m.unknown(node), lambda: _left_unknown(m, session=session)
    return value, None


def _left_unknown(m: Interpreter, *, session: bool) -> None:
    m.world.unknown_contexts -= 1
    m.world.unknown_sessions -= session


def _expects_an_error(node: ast.expr) -> bool:
    """`pytest.raises(…)`, `self.assertRaises(…)`, `suppress(…)`: what is done inside is meant to fail."""
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else name
    return name.startswith("assertRaises") or name in ("raises", "suppress")


def _unmute(m: Interpreter) -> None:
    m.muted -= 1


def _leaving_mode(m: Interpreter) -> Callable[[], None]:
    def leave() -> None:
        m.grad.pop()

    return leave


def _own_class(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    entered: Value = value
    begin = value.cls.find("__enter__") if value.cls else None
    if isinstance(begin, Func):
        entered = m.call_function(begin.bind(value), [], {}, node)
    end = value.cls.find("__exit__") if value.cls else None

    def leave() -> None:
        if isinstance(end, Func):
            m.call_function(end.bind(value), [Const(None)] * 3, {}, node)

    return entered, leave


def _tenure_scope(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    stack = m.world.scopes
    born: list[Tensor] = []
    stack.append((value, born))

    def leave() -> None:
        stack.pop()
        for one in born:
            if not one.state.kept:
                m.set_state(one.state, "released", ("released", m.spot(node), one))

    return value, leave


def _lock(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    m.world.locks = m.world.locks + 1

    def leave() -> None:
        m.world.locks -= 1

    return value, leave


_ENTER: dict[str, Callable[[Interpreter, Obj, ast.expr], Entered]] = {"tenure_scope": _tenure_scope, "lock": _lock}
