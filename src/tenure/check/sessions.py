"""TensorFlow 1: sessions, default graphs, initialisers, variables by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tenure.check.machine import Machine
from tenure.check.values import NONE, Const, Map, Maybe, Num, Obj, Seq, Spot, Tensor, Value, best, inside, tensors


def _current(m: Machine) -> Any:
    from tenure.check.tensorflow_model import current_graph

    return current_graph(m)


def _session(
    m: Machine, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.obj("session", node)
    graph = kwargs.get("graph")
    if graph is None and len(args) > 1:
        graph = args[1]
    own = best(graph) if graph is not None else None
    made.state["graph"] = own if isinstance(own, Obj) and own.kind == "tf.Graph" else None
    made.state["given"] = graph is not None
    home = made.state["graph"] if graph is not None else _current(m)
    if home is None and graph is None:
        # Eager, or not told: the session's block makes the default graph the current one.
        home = m.world.setdefault("implicit graph", m.obj("tf.Graph", node))
        home.loops = ()
    made.state["home"] = home
    made.state["ready"] = []
    if "interactive" in words:
        m.world.setdefault("sessions", []).append(made)
    return made


def _graph(m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.obj("tf.Graph", node)


def _default_graph(
    m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    graph = _current(m)
    return graph if isinstance(graph, Obj) else m.unknown(node)


def _reset(m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if not m.world.get("graph_mode"):
        return NONE
    old = m.world.get("default graph")
    m.world.setdefault("dead graphs", []).append(old)
    m.world["default graph"] = m.obj("tf.Graph", node)
    m.world["reset"] = m.spot(node)
    m.world["named"] = {}
    return NONE


def _mode(
    m: Machine, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    m.world["graph_mode"] = words[0] == "graph_mode"
    m.world.setdefault("default graph", m.obj("tf.Graph", node))
    return NONE


def _initializer(
    m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.obj("initializer", node)
    given = [t for value in args for t in tensors(value)]
    made.state["variables"] = (
        given if name.endswith("variables_initializer") and given else list(m.world.get("variables", []))
    )
    made.state["all"] = not given
    made.state["place"] = _current(m)
    made.state["eager"] = _current(m) is None
    return made


def _variable_scope(
    m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.obj("variable_scope", node)
    first = args[0] if args else kwargs.get("name_or_scope", NONE)
    made.state["name"] = first.value if isinstance(first, Const) and isinstance(first.value, str) else None
    reuse = kwargs.get("reuse", args[4] if len(args) > 4 else None)
    made.state["reuse"] = (
        None if reuse is None or (isinstance(reuse, Const) and reuse.value in (None, False))
        else "yes" if isinstance(reuse, Const) and reuse.value is True else "either"
    )  # fmt: skip
    return made


def _iterator(m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.obj("iterator", node)


CALLS: dict[str, Callable[..., Value]] = {
    "session": _session,
    "graph": _graph,
    "default_graph": _default_graph,
    "reset_graph": _reset,
    "graph_mode": _mode,
    "eager_mode": _mode,
    "initializer": _initializer,
    "variable_scope": _variable_scope,
    "iterator": _iterator,
}


def variable_made(m: Machine, made: Tensor) -> None:
    """A variable of a graph has to be initialised before it is read."""
    if made.place is not None:
        m.world.setdefault("variables", []).append(made)


def named_variable(m: Machine, made: Tensor, name: Value, node: ast.AST) -> None:
    """`get_variable(name)`: the name must be free, or there already, as the scopes say."""
    stack = m.world.get("variable_scopes", [])
    if not isinstance(name, Const) or any(scope.state["name"] is None for scope in stack):
        return
    full = "/".join([*(scope.state["name"] for scope in stack), str(name.value)])
    reuse = next((scope.state["reuse"] for scope in reversed(stack) if scope.state["reuse"]), None)
    if m.world.get("scope reuse") and not reuse:
        reuse = "either"
    graph = made.place
    if graph is None or m.conditions:
        return
    names = m.world.setdefault("named", {})
    key = (id(graph), full)
    first = names.get(key)
    if first is not None and reuse is None:
        m.tell("name taken", [("use", m.spot(node)), ("birth", first)], name=full)
    elif first is None and reuse == "yes" and key[0] in {k[0] for k in names}:
        m.tell("name missing", [("use", m.spot(node))], name=full)
    names.setdefault(key, m.spot(node))


def evaluated(m: Machine, owner: Tensor, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    """`tensor.eval()`."""
    session = best(kwargs.get("session", args[1] if len(args) > 1 else NONE))
    if isinstance(session, Obj):
        run(m, session, [owner, *args[:1]], node)
    elif owner.place is None and owner.trace is None and not m.traces and not owner.flags and _is_eager(m):
        m.tell("eager in session", [("use", m.spot(node)), ("birth", owner.born)])
    elif (
        owner.place is not None
        and not m.world.get("sessions")
        and "session" not in kwargs
        and len(args) < 2
        and not m.traces
    ):
        sure = m.world.get("script") and not m.conditions_on_tracing()
        if sure:
            names = [name for name, value in m.frame.names.items() if _is_open(value)]
            m.tell(
                "no default session",
                [("use", m.spot(node)), ("birth", owner.born)],
                session=names[0] if len(names) == 1 else None,
            )
    elif m.world.get("sessions"):
        run(m, m.world["sessions"][-1], [owner, *args[:1]], node)
    return m.tensor("np", node)


def _is_eager(m: Machine) -> bool:
    """Whether this surely runs at once: a program for TensorFlow 2 that never turns that off."""
    mode = m.world.get("graph_mode") or m.world.get("sessions")
    return bool(m.world.get("script") and m.world.get("tf imported as v2", True) and not mode)


def _is_open(value: Value) -> bool:
    return isinstance(value, Obj) and value.kind == "session" and value.state.get("closed") is None


def run(m: Machine, session: Obj, args: list[Value], node: ast.AST) -> None:
    """`session.run(fetches, feeds)`."""
    closed = session.state.get("closed")
    if isinstance(closed, Spot):
        m.tell("closed session", [("use", m.spot(node)), ("end", closed), ("birth", session.born)])
        return
    fetched = [one for value in args[:1] for one in inside(value)]
    for loop in m.loops:
        m.world.setdefault("run loops", set()).add(loop.uid)
    found = [one for one in fetched if isinstance(one, Tensor)]
    for one in found:
        _fetch(m, session, one, node)
    for part in fetched:
        if isinstance(part, Obj) and part.kind == "initializer":
            if (
                part.state.get("eager")
                and not session.state.get("given")
                and m.world.get("eager variables") is not False
            ):
                _eager(m, session, m.spot(part.born.node), node)
            ready = session.state["ready"]
            ready.extend(part.state.get("variables", []))
            ready.extend(part.state.get("iterators", []))
    if m.world.get("script"):
        _uninitialised(m, session, found, node)


def _fetch(m: Machine, session: Obj, one: Tensor, node: ast.AST) -> None:
    if one.fw != "tf" or one.trace is not None:
        return
    home = session.state.get("graph") or session.state.get("home")
    if one.place is None:
        if (
            (
                home in (None, m.world.get("implicit graph"))
                or (session.state.get("graph") is not None and not one.flags)
            )
            and not m.traces
            and one.fw == "tf"
            and "keras" not in one.flags
            and not m.world.get("graph_mode")
        ):
            _eager(m, session, one.born, node)
        return
    if (
        home is not None
        and one.place is not home
        and (session.state.get("graph") is not None or not session.state.get("given"))
    ):
        dead = one.place in m.world.get("dead graphs", ())
        m.tell(
            "other graph",
            [("use", m.spot(node)), ("birth", one.born), ("end", m.world.get("reset") if dead else None)],
            reset=dead,
        )


def _feed(m: Machine, session: Obj, feeds: Value, node: ast.AST) -> None:
    """What is fed must be plain: an array, a number."""
    if not isinstance(feeds, Map) or m.traces or m.world.get("graph_mode"):
        return
    for one in feeds.attrs.values():
        if isinstance(one, Tensor) and one.fw == "tf" and one.place is None and one.trace is None and not one.flags:
            _eager(m, session, one.born, node)


def _eager(m: Machine, session: Obj, born: Spot, node: ast.AST) -> None:
    if m.world.get("script") and m.world.get("tf imported as v2", True):
        m.tell("eager in session", [("use", m.spot(node)), ("birth", born), ("holder", session.born)])


def _uninitialised(m: Machine, session: Obj, fetched: list[Tensor], node: ast.AST) -> None:
    from tenure.check.autograd import closure

    if session.state.get("restored"):
        return
    ready = {id(one) for one in session.state["ready"]}
    known = {id(one.node): one for one in m.world.get("variables", []) if one.node is not None}
    for one in fetched:
        for part in closure(one.node):
            source = part.state.get("iterator")
            if source is not None and id(source) not in ready:
                m.tell("not initialised", [("use", m.spot(node)), ("birth", source.born)], what="iterator")
                return
            variable = known.get(id(part))
            if variable is not None and id(variable) not in ready and variable.place is not None:
                m.tell("not initialised", [("use", m.spot(node)), ("birth", variable.born)], what="variable")
                return


def object_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """Methods of sessions, graphs, iterators, scopes and savers."""
    if owner.kind == "session":
        if name == "run":
            given = list(args) or [kwargs.get("fetches", NONE)]
            run(m, owner, given, node)
            _feed(m, owner, best(kwargs.get("feed_dict", args[1] if len(args) > 1 else NONE)), node)
            return _fetched(m, best(given[0]), node)
        if name == "close":
            m.put(owner.state, "closed", m.spot(node))
            stack = m.world.get("sessions", [])
            if owner in stack:
                stack.remove(owner)
            return NONE
        if name == "as_default":
            made = m.obj("session_default", node)
            owner.state["as_default"] = True
            made.state["session"] = owner
            return made
        return m.unknown(node)
    if owner.kind == "tf.Graph":
        if name == "as_default":
            made = m.obj("graph_default", node)
            made.state["graph"] = owner
            return made
        return NONE if name == "finalize" else m.unknown(node)
    if owner.kind == "iterator":
        if name == "get_next":
            return _next(m, owner, node)
        return m.unknown(node)
    if owner.kind == "variable_scope":
        if name == "reuse_variables":
            owner.state["reuse"] = "yes"
        return NONE
    saves = owner.kind.endswith("Saver") and name in ("save", "restore") and bool(args)
    if saves and isinstance(session := best(args[0]), Obj) and isinstance(session.state.get("closed"), Spot):
        m.tell("closed session", [("use", m.spot(node)), ("end", session.state["closed"]), ("birth", session.born)])
    if owner.kind.endswith("Saver") and name == "restore" and args and isinstance(best(args[0]), Obj):
        best(args[0]).state["restored"] = True  # type: ignore[attr-defined]
        return NONE
    return None


def _next(m: Machine, owner: Obj, node: ast.AST) -> Value:
    from tenure.check.tensorflow_model import place

    def one() -> Tensor:
        made = m.tensor("tf", node)
        place(m, made, [], node)
        if made.node is not None:
            made.node.state["iterator"] = owner
        return made

    made = m.seq("tuple", [], node)
    made.rest = one()
    return made


def _fetched(m: Machine, fetches: Value, node: ast.AST) -> Value:
    if isinstance(fetches, Seq):
        return m.seq("list", [m.tensor("np", node) for _ in fetches.items], node)
    return m.tensor("np", node)


__all__ = ["CALLS", "Maybe", "Num", "evaluated", "named_variable", "run"]
