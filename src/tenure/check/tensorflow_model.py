"""TensorFlow and Keras: graphs, sessions, variables, tapes, arrays, datasets, layers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tenure.check import effects, sessions, transforms
from tenure.check.contexts import tracing
from tenure.check.machine import Machine, Trace
from tenure.check.models import effect
from tenure.check.values import (
    NONE,
    Const,
    Func,
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
    tensors,
)  # fmt: skip


def graph_mode(m: Machine) -> bool:
    """Whether operations go into a graph instead of running."""
    return bool(m.world.get("graph_mode") or m.world.get("graphs")) and not m.traces


def current_graph(m: Machine) -> Any:
    """The graph that operations go into."""
    graphs = m.world.get("graphs")
    if graphs:
        return graphs[-1]
    if m.world.get("graph_mode"):
        return m.world.get("default graph")
    return None


def place(m: Machine, made: Tensor, inputs: list[Tensor], node: ast.AST) -> None:
    """Note the graph of a new operation, and whether its inputs belong to the same."""
    if m.traces:
        return
    graph = current_graph(m)
    made.place = graph
    for one in inputs:
        eager = one.fw == "tf" and one.place is None and one.trace is None and not one.flags
        if graph is not None and eager and m.world.get("script") and not m.world.get("graph_mode"):
            m.tell("eager in graph", [("use", m.spot(node)), ("birth", one.born)])
        if one.fw != "tf" or one.place is None or ("variable" in one.flags and one.place is None):
            continue
        if graph is not None and one.place is not graph:
            cause = m.world.get("reset") if one.place in m.world.get("dead graphs", ()) else None
            m.tell("other graph", [("use", m.spot(node)), ("birth", one.born), ("end", cause)], reset=cause is not None)
    if graph is not None:
        if made.node is not None:
            made.node.state["variables"] = ()
        for loop in m.loops:
            if loop.uid not in getattr(graph, "loops", ()):
                m.world.setdefault("ops in loop", []).append((loop.uid, m.spot(node)))


def _variable(m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    if any(t.framework == "tf" and t.kind == "function" for t in m.traces) and not m.conditions and not m.ifs:
        m.world.setdefault("variables in trace", []).append(m.spot(node))
    made = m.tensor("tf", node)
    made.trace = None
    made.flags = frozenset({"variable"})
    place(m, made, inputs, node)
    sessions.variable_made(m, made)
    return made


def _get_variable(
    m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = _variable(m, name, words, [], {}, node)
    sessions.named_variable(m, made, args[0] if args else kwargs.get("name", NONE), node)  # type: ignore[arg-type]
    return made


def _tape(m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("tape", node)
    wish = kwargs.get("persistent", args[0] if args else None)
    made.state["persistent"] = wish is not None and not (isinstance(wish, Const) and wish.value is False)
    return made


def _tensor_array(
    m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    return m.obj("tensor array", node)


def _dataset(m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("dataset", node)
    if name.endswith("from_generator"):
        return made
    made.state["elements"] = _sliced(m, args[0], node) if args and name.endswith("from_tensor_slices") else None
    return made


def _sliced(m: Machine, value: Value, node: ast.AST) -> Value:
    one = best(value)
    if isinstance(one, Seq) and one.kind == "tuple":
        return m.seq("tuple", [m.tensor("tf", node) for _ in one.items], node)
    return m.tensor("tf", node)


def _init_scope(m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.obj("init_scope", node)


def _trainer(m: Machine, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    return m.obj("trainer" if name.endswith("Optimizer") else name, node)


CALLS: dict[str, Callable[..., Value]] = {
    "variable": _variable,
    "get_variable": _get_variable,
    "tape": _tape,
    "tensor_array": _tensor_array,
    "dataset": _dataset,
    "init_scope": _init_scope,
    "trainer": _trainer,
    **sessions.CALLS,
}


def keras_call(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """A function or class of Keras."""
    last = name.rpartition(".")[2]
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    if last == "Input":
        made = m.tensor("tf", node)
        made.flags = frozenset({"keras"})
        made.place = None
        return made
    if effect(name)[0] == "keras_op":
        for one in inputs:
            effects.use(m, one, node)
        made = m.tensor("tf", node, parents=inputs)
        if any("keras" in one.flags for one in inputs):
            made.flags = frozenset({"keras"})
        return made
    traced = any(t.framework == "tf" and t.kind == "function" for t in m.traces)
    if (
        traced
        and not m.conditions
        and not m.ifs
        and (".layers." in name or ".optimizers." in name)
        and last[:1].isupper()
    ):
        m.world.setdefault("variables in trace", []).append(m.spot(node))
    if ".layers." in name or last in ("Model", "Sequential"):
        return m.obj(name, node)
    effects.escape(m, [*args, *kwargs.values()], node)
    return m.unknown(node)


def call_object(m: Machine, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """Call a layer or model of Keras."""
    if not owner.family.startswith("keras"):
        return None
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    for one in inputs:
        effects.use(m, one, node)
    made = m.tensor("tf", node, parents=inputs)
    if any("keras" in one.flags for one in inputs):
        made.flags = frozenset({"keras"})
    return made


def object_attribute(m: Machine, owner: Obj, name: str, node: ast.AST) -> Value | None:
    """Attributes of graphs, sessions and iterators."""
    if owner.kind == "iterator" and name == "initializer":
        made = m.obj("initializer", node)
        made.state["iterators"] = [owner]
        return made
    if owner.kind == "session" and name == "graph":
        graph = owner.state.get("graph")
        return graph if isinstance(graph, Obj) else m.unknown(node)
    return None


def method(m: Machine, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    """A method of a TensorFlow tensor or variable."""
    if name == "numpy":
        _read(m, owner, node)
        return m.tensor("np", node)
    if "keras" in owner.flags and name in ("numpy", "eval"):
        m.tell("keras symbolic", [("use", m.spot(node)), ("birth", owner.born)], how=f".{name}()")
    if name in ("eval", "run") and (name == "eval" or owner.place is not None):
        return sessions.evaluated(m, owner, args, kwargs, node)
    if name in ("set_shape", "get_shape"):
        return Num()
    effects.use(m, owner, node)
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    if name.startswith("assign"):
        place(m, m.tensor("tf", node), [], node)
        return owner
    if name in ("read_value", "value"):
        return m.tensor("tf", node, parents=[owner])
    made = m.tensor("tf", node, parents=[owner, *inputs])
    made.trace = owner.trace or made.trace
    return made


def _read(m: Machine, owner: Tensor, node: ast.AST) -> None:
    if "variable" in owner.flags:
        return
    effects.read_as_number(m, owner, node, ".numpy()")
    if "keras" in owner.flags and not m.traces:
        m.tell("keras symbolic", [("use", m.spot(node)), ("birth", owner.born)], how=".numpy()")


def object_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """Methods of tapes, arrays, datasets, sessions and models."""
    if owner.kind == "tape":
        return _tape_method(m, owner, name, args, kwargs, node)
    if owner.kind == "tensor array":
        return _array_method(m, owner, name, args, node)
    if owner.kind == "dataset":
        return _dataset_method(m, owner, name, args, kwargs, node)
    if owner.kind == "trainer":
        if name in ("minimize", "apply_gradients"):
            made = m.tensor("tf", node, parents=[t for value in args for t in tensors(value)])
            place(m, made, [t for value in args for t in tensors(value)], node)
            return made
        return m.unknown(node)
    found = sessions.object_method(m, owner, name, args, kwargs, node)
    if found is not None:
        return found
    if (
        owner.family == "keras.Model"
        and owner.cls is not None
        and name in ("fit", "evaluate", "predict", "train_on_batch")
    ):
        _follow_steps(m, owner, node)
        return m.unknown(node)
    if owner.family.startswith("keras") and name == "add_weight":
        made = m.tensor("tf", node)
        made.trace, made.flags = None, frozenset({"variable"})
        return made
    return None


def _follow_steps(m: Machine, owner: Obj, node: ast.AST) -> None:
    """`fit` traces the model's own steps."""
    own = [owner.cls.find(name) if owner.cls else None for name in ("train_step", "test_step", "predict_step")]
    for found in own:
        if isinstance(found, Func):
            follow_step(m, owner, found, node)
    called = owner.cls.find("call") if owner.cls else None
    if isinstance(called, Func) and not isinstance(own[0], Func):
        from tenure.check.calls import call_function

        trace = Trace("keras", f"{owner.kind}.call", "keras", m.spot(called.node))
        with tracing(m, trace):
            given = transforms.assumed(m, trace, node)
            given.fw = "tf"
            call_function(m, called.bind(owner), [given], {}, node)


def follow_step(m: Machine, owner: Obj, function: Func, node: ast.AST) -> None:
    """Follow one of a Keras model's steps as `fit` traces it."""
    from tenure.check.calls import call_function

    trace = Trace("function", f"{owner.kind}.{function.name}", "tf", m.spot(function.node))
    with tracing(m, trace):
        data = m.seq("tuple", [transforms.assumed(m, trace, node), transforms.assumed(m, trace, node)], node)
        call_function(m, function.bind(owner), [data], {}, node)


def _tape_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    if name in ("gradient", "jacobian", "batch_jacobian"):
        used = owner.state.get("used")
        inside_ = owner in m.world.get("tapes", ())
        if isinstance(used, Spot) and not owner.state["persistent"] and not inside_:
            m.tell("tape used again", [("use", m.spot(node)), ("end", used), ("birth", owner.born)])
        if not inside_:
            m.put(owner.state, "used", m.spot(node))
        ended = owner.state.get("ended at")
        for one in tensors(args[0]) if args else ():
            if (
                ended is not None
                and not m.traces
                and one.fw == "tf"
                and one.node is not None
                and one.node.state.get("at", 0) > ended
            ):
                m.tell("outside tape", [("use", m.spot(node)), ("birth", one.born), ("end", owner.born)])
        sources = best(args[1]) if len(args) > 1 else best(kwargs.get("sources", NONE))
        parents = tensors(args[0]) if args else []
        if isinstance(sources, Seq):
            group = m.seq("list", [m.tensor("tf", node, parents=parents) for _ in sources.items], node)
            group.rest = m.tensor("tf", node, parents=parents) if not group.items else None
            return group
        return m.tensor("tf", node, parents=parents) if isinstance(sources, Tensor) and sources.fw else m.unknown(node)
    return NONE if name == "watch" else m.unknown(node)


def _array_method(m: Machine, owner: Obj, name: str, args: list[Value], node: ast.Call) -> Value:
    if name in ("write", "unstack", "scatter", "split"):
        made = m.obj("tensor array", node)
        made.state["write of"] = owner
        return made
    if name in ("stack", "concat", "read", "gather"):
        return m.tensor("tf", node)
    return m.unknown(node)


def _dataset_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    made = m.obj("dataset", node)
    elements = owner.state.get("elements")
    made.state["elements"] = elements
    if name in ("map", "flat_map", "interleave", "filter") and args:
        from tenure.check.calls import call

        trace = Trace("control flow", f"Dataset.{name}", "tf", m.spot(node))
        function = best(args[0])
        with tracing(m, trace):
            one = best(elements) if elements is not None else None
            count = len(function.node.args.args) - (function.bound is not None) if isinstance(function, Func) else 1
            items = one.items if isinstance(one, Seq) else [m.tensor("tf", node)] * max(count, 1)
            given: list[Value] = [transforms.assumed(m, trace, node) for _ in items]
            for value in given:
                value.flags = frozenset()  # type: ignore[attr-defined]
            if isinstance(function, (Func, Wrapped)):
                call(m, function, given, {}, node)
        if name == "map":
            made.state["elements"] = None
        return made
    if name == "get_next":
        return m.unknown(node)
    return made


__all__ = ["Maybe", "Node", "inside", "method", "place"]
