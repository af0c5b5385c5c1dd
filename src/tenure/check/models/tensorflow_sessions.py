"""TensorFlow 1: sessions, default graphs, initialisers, variables by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Map, Obj, Seq, Spot, Tensor, Value
from tenure.check.lifetimes.graphs import closure
from tenure.check.models.tensorflow_graphs import current_graph, is_eager, place
from tenure.check.value_queries import best, inside, tensors


def _current(m: Interpreter) -> Any:
    return current_graph(m)


def _session(
    m: Interpreter, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.obj("session", node)
    graph = kwargs.get("graph")
    if graph is None and len(args) > 1:
        graph = args[1]
    own = best(graph) if graph is not None else None
    made.state.graph = own if isinstance(own, Obj) and own.kind == "tf.Graph" else None
    made.state.given = graph is not None
    home = made.state.graph if graph is not None else _current(m)
    if home is None and graph is None:
        # Eager, or unknown: the session's block makes the default graph the current one.
        home = m.world.implicit_graph = m.world.implicit_graph or m.obj("tf.Graph", node)
        home.loops = ()
    made.state.home = home
    made.state.ran_unknown = bool(m.conditions)  # elsewhere it may be another session, and that may be initialised
    if "interactive" in words:
        m.world.sessions.append(made)
    return made


def _graph(m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.obj("tf.Graph", node)


def _default_graph(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    graph = _current(m)
    return graph if isinstance(graph, Obj) else m.unknown(node)


def _reset(m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if not m.world.graph_mode:
        return NONE
    old = m.world.default_graph
    m.world.dead_graphs.append(old)
    m.world.default_graph = m.obj("tf.Graph", node)
    m.world.reset = m.spot(node)
    m.world.named = {}
    return NONE


def _functions_eager(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    on = best(args[0] if args else kwargs.get("run_eagerly", NONE))
    m.world.functions_eager = isinstance(on, Const) and on.value is True
    return NONE


def _mode(
    m: Interpreter, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    m.world.graph_mode = words[0] == "graph_mode"
    m.world.default_graph = m.world.default_graph or m.obj("tf.Graph", node)
    return NONE


def _initializer(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.obj("initializer", node)
    given = [t for value in args for t in tensors(value) if "some" not in t.flags]
    known = bool(given) and all(t.fw is not None for t in given)
    made.state.variables = given if name.endswith("variables_initializer") and known else list(m.world.variables)
    made.state.eager = _current(m) is None
    return made


def _variable_scope(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.obj("variable_scope", node)
    first = args[0] if args else kwargs.get("name_or_scope", NONE)
    made.state.name = first.value if isinstance(first, Const) and isinstance(first.value, str) else None
    reuse = kwargs.get("reuse", args[4] if len(args) > 4 else None)
    made.state.reuse = (
        None if reuse is None or (isinstance(reuse, Const) and reuse.value in (None, False))
        else "yes" if isinstance(reuse, Const) and reuse.value is True else "either"
    )  # fmt: skip
    return made


def _iterator(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    return m.obj("iterator", node)


CALLS: dict[str, Callable[..., Value]] = {
    "session": _session,
    "graph": _graph,
    "default_graph": _default_graph,
    "reset_graph": _reset,
    "graph_mode": _mode,
    "eager_mode": _mode,
    "functions_eager": _functions_eager,
    "initializer": _initializer,
    "variable_scope": _variable_scope,
    "iterator": _iterator,
}


def variable_made(m: Interpreter, made: Tensor) -> None:
    """A variable of a graph has to be initialised before it is read."""
    if made.place is not None:
        m.world.variables.append(made)


def named_variable(m: Interpreter, made: Tensor, name: Value, node: ast.AST) -> None:
    """`get_variable(name)`: the name must be free, or there already, as the scopes say."""
    stack = m.world.variable_scopes
    if not isinstance(name, Const) or any(scope.state.name is None for scope in stack):
        return
    full = "/".join([*(str(scope.state.name) for scope in stack), str(name.value)])
    reuse = next((scope.state.reuse for scope in reversed(stack) if scope.state.reuse), None)
    graph = made.place
    if graph is None or m.conditions:
        return
    names = m.world.named
    key = (id(graph), full)
    first = names.get(key)
    if first is not None and reuse is None and not m.world.names_taken:
        m.world.names_taken = True  # the program ends there
        m.add_fact(facts.NameTaken(use=m.spot(node), birth=first, name=full))
    elif first is None and reuse == "yes" and any(k[0] == key[0] and _scope(k[1]) == _scope(full) for k in names):
        m.add_fact(facts.NameMissing(use=m.spot(node), name=full))
    names.setdefault(key, m.spot(node))


def _scope(name: str) -> str:
    """The scope around a variable: layers of libraries make variables in scopes of their own."""
    return name.rpartition("/")[0]


def evaluated(m: Interpreter, owner: Tensor, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    """`tensor.eval()`."""
    at = 0 if "variable" in owner.flags else 1  # a variable takes no values to feed
    given = kwargs.get("session", args[at] if len(args) > at else None)
    session = best(given) if given is not None else NONE
    if isinstance(session, Obj):
        run(m, session, [owner, *args[:1]], node)
    elif owner.place is None and owner.trace is None and not m.traces and not owner.flags and _is_eager(m):
        m.add_fact(facts.EagerInSession(use=m.spot(node), birth=owner.born))
    elif owner.place is not None and not m.world.sessions and given is None and not m.traces:
        # A decorator or a block that is not known may open a session.
        decorated = any(getattr(body, "decorator_list", None) for body in m.calls)
        unknown = decorated or m.world.unknown_sessions  # `with session.as_default():` of a session that is not known
        sure = m.world.script and not m.conditions_on_tracing() and not unknown
        if sure:
            names = [name for name, value in m.frame.names.items() if _is_open(value)]
            m.add_fact(
                facts.NoDefaultSession(
                    use=m.spot(node), birth=owner.born, session=names[0] if len(names) == 1 else None
                )
            )
    elif m.world.sessions:
        run(m, m.world.sessions[-1], [owner, *args[:1]], node)
    return m.tensor("np", node)


def _is_eager(m: Interpreter) -> bool:
    """Whether this surely runs at once: a program for TensorFlow 2 that never turns that off."""
    mode = m.world.graph_mode or m.world.sessions
    return is_eager(m) and not mode


def _is_open(value: Value) -> bool:
    return isinstance(value, Obj) and value.kind == "session" and value.state.closed is None


def runs_unknown(m: Interpreter, args: list[Value]) -> None:
    """`session.run(op)`, of a session that is not known: an operation of a graph is run by nothing else."""
    if any(isinstance(one, Tensor) and one.place is not None for arg in args[:1] for one in inside(arg)):
        m.world.run_loops.update(loop.uid for loop in m.loops)


def run(m: Interpreter, session: Obj, args: list[Value], node: ast.AST) -> None:
    """`session.run(fetches, feeds)`."""
    closed = session.state.closed
    if isinstance(closed, Spot):
        m.add_fact(facts.ClosedSession(use=m.spot(node), end=closed, birth=session.born))
        return
    fetched = [one for value in args[:1] for one in inside(value)]
    for loop in m.loops:
        m.world.run_loops.add(loop.uid)
    found = [one for one in fetched if isinstance(one, Tensor)]
    for one in found:
        _fetch(m, session, one, node)
        assigned = [step.state.assigns for step in closure(one.node) if step.state.assigns is not None]
        session.state.ready = [*session.state.ready, *assigned]
        if one.fw is None:
            session.state.ran_unknown = True  # it may initialise variables
    for part in fetched:
        if isinstance(part, Obj) and part.kind != "initializer":
            session.state.ran_unknown = True
        if isinstance(part, Obj) and part.kind == "initializer":
            if part.state.eager and not session.state.given:
                _eager(m, session, m.spot(part.born.node), node)
            session.state.ready = [*session.state.ready, *part.state.variables, *part.state.iterators]
    if m.world.script:
        _uninitialised(m, session, found, node)


def _fetch(m: Interpreter, session: Obj, one: Tensor, node: ast.AST) -> None:
    if one.fw != "tf" or one.trace is not None or "some" in one.flags:
        return
    home = session.state.graph or session.state.home
    if one.place is None:
        if (
            (home in (None, m.world.implicit_graph) or (session.state.graph is not None and not one.flags))
            and not m.traces
            and one.fw == "tf"
            and "keras" not in one.flags
            and not m.world.graph_mode
        ):
            _eager(m, session, one.born, node)
        return
    if home is not None and one.place is not home and (session.state.graph is not None or not session.state.given):
        dead = one.place in m.world.dead_graphs
        m.add_fact(facts.OtherGraph(use=m.spot(node), birth=one.born, end=m.world.reset if dead else None, reset=dead))


def _feed(m: Interpreter, session: Obj, feeds: Value, node: ast.Call) -> None:
    """What is fed must be plain: an array, a number."""
    given = node.args[1:2] + [word.value for word in node.keywords if word.arg == "feed_dict"]
    for key in (one for arg in given if isinstance(arg, ast.Dict) for one in arg.keys):
        fed = best(m.evaluate(key)) if isinstance(key, (ast.Name, ast.Attribute)) else NONE
        if isinstance(fed, Tensor) and fed.place is not None and not m.traces:
            _fetch(m, session, fed, node)
    if not isinstance(feeds, Map) or m.traces or m.world.graph_mode:
        return
    for one in feeds.attrs.values():
        if isinstance(one, Tensor) and one.fw == "tf" and one.place is None and one.trace is None and not one.flags:
            _eager(m, session, one.born, node)


def _eager(m: Interpreter, session: Obj, born: Spot, node: ast.AST) -> None:
    if is_eager(m):
        m.add_fact(facts.EagerInSession(use=m.spot(node), birth=born, holder=session.born))


def _uninitialised(m: Interpreter, session: Obj, fetched: list[Tensor], node: ast.AST) -> None:
    known_all = not (session.state.restored or session.state.escaped or session.state.ran_unknown)
    if not known_all or m.world.initialised_elsewhere:
        return
    ready = {id(one) for one in session.state.ready}
    known = {id(one.node): one for one in m.world.variables if one.node is not None}
    for one in fetched:
        for part in closure(one.node):
            source = part.state.iterator
            if source is not None and id(source) not in ready:
                m.add_fact(facts.NotInitialised(use=m.spot(node), birth=source.born, what="iterator"))
                return
            variable = known.get(id(part))
            if variable is not None and id(variable) not in ready and variable.place is not None:
                m.add_fact(facts.NotInitialised(use=m.spot(node), birth=variable.born, what="variable"))
                return


def object_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """Methods of sessions, graphs, iterators, scopes and savers."""
    if owner.kind == "session":
        if name == "run":
            given = list(args) or [kwargs.get("fetches", NONE)]
            run(m, owner, given, node)
            _feed(m, owner, best(kwargs.get("feed_dict", args[1] if len(args) > 1 else NONE)), node)
            return _fetched(m, best(given[0]), node)
        if name == "close":
            m.set_state(owner.state, "closed", m.spot(node))
            stack = m.world.sessions
            if owner in stack:
                stack.remove(owner)
            return NONE
        if name == "as_default":
            made = m.obj("session_default", node)
            owner.state.as_default = True
            made.state.session = owner
            return made
        return m.unknown(node)
    if owner.kind == "tf.Graph":
        if name == "as_default":
            made = m.obj("graph_default", node)
            made.state.graph = owner
            return made
        return NONE if name == "finalize" else m.unknown(node)
    if owner.kind == "iterator":
        if name == "get_next":
            return _next(m, owner, node)
        return m.unknown(node)
    if owner.kind == "initializer" and name == "run":
        named = kwargs.get("session", args[1] if len(args) > 1 else None)
        session = best(named) if named is not None else m.world.sessions[-1] if m.world.sessions else NONE
        if isinstance(session, Obj):
            run(m, session, [owner], node)
        else:
            m.world.initialised_elsewhere = True
        return NONE
    if owner.kind == "variable_scope":
        if name == "reuse_variables":
            owner.state.reuse = "yes"
        return NONE
    saves = owner.kind.endswith("Saver") and name in ("save", "restore") and bool(args)
    if saves and isinstance(session := best(args[0]), Obj) and isinstance(session.state.closed, Spot):
        m.add_fact(facts.ClosedSession(use=m.spot(node), end=session.state.closed, birth=session.born))
    if owner.kind.endswith("Saver") and name == "restore" and args and isinstance(session := best(args[0]), Obj):
        _restored(m, owner, session)
        return NONE
    return None


def _restored(m: Interpreter, saver: Obj, session: Obj) -> None:
    """A checkpoint gives values to the variables that there were when its saver was made; those made later get none."""
    session.state.ready = [*session.state.ready, *saver.state.ready]
    session.state.restored = session.state.restored or not saver.state.ready


def _next(m: Interpreter, owner: Obj, node: ast.AST) -> Value:
    def one() -> Tensor:
        made = m.tensor("tf", node)
        place(m, made, [], node)
        if made.node is not None:
            made.node.state.iterator = owner
        return made

    made = m.seq("tuple", [], node)
    made.rest = one()
    return made


def _fetched(m: Interpreter, fetches: Value, node: ast.AST) -> Value:
    if isinstance(fetches, Seq):
        return m.seq("list", [m.tensor("np", node) for _ in fetches.items], node)
    return m.tensor("np", node)
