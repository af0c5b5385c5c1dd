"""What TensorFlow has for `with`: sessions, graphs, tapes and scopes."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tenure.check.abstract_interpreter import Entered, Interpreter
from tenure.check.abstract_values import Obj


def _session(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    stack = m.world.sessions
    stack.append(value)
    graphs = m.world.graphs
    own = value.state.graph or (value.state.home if not value.state.given else None)
    if own is not None:
        graphs.append(own)

    def leave() -> None:
        stack.remove(value)
        if own is not None:
            graphs.remove(own)
        if not value.state.as_default:
            m.set_state(value.state, "closed", m.spot(node))

    return value, leave


def _graph(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    graphs = m.world.graphs
    target = value.state.graph or value
    graphs.append(target)
    return target, lambda: graphs.remove(target)


def _tape(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    m.world.tapes.append(value)

    def leave() -> None:
        m.world.tapes.remove(value)
        value.state.closed_at = m.clock

    return value, leave


def _variable_scope(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    stack = m.world.variable_scopes
    stack.append(value)
    return value, lambda: stack.remove(value)


def _init_scope(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    before, m.traces = m.traces, ()

    def leave() -> None:
        m.traces = before

    return value, leave


CONTEXTS: dict[str, Callable[[Interpreter, Obj, ast.expr], Entered]] = {
    "session": _session,
    "session_default": lambda m, value, node: _session(m, value.state.session or value, node),
    "tf.Graph": _graph,
    "graph_default": _graph,
    "tape": _tape,
    "variable_scope": _variable_scope,
    "init_scope": _init_scope,
}
