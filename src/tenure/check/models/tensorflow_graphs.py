"""TensorFlow graphs: which one is current, and which one an operation belongs to."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Tensor, Value
from tenure.check.syntax import Loop


def graph_mode(m: Interpreter) -> bool:
    """Whether operations go into a graph instead of running."""
    return bool(m.world.graph_mode or m.world.graphs) and not m.traces


def current_graph(m: Interpreter) -> Any:
    """The graph that operations go into."""
    graphs = m.world.graphs
    if graphs:
        return graphs[-1]
    if m.world.graph_mode:
        return m.world.default_graph
    return None


def variables(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """`tf.trainable_variables()` and its like: variables of the graph, which ones is not known."""
    graph = current_graph(m)
    if graph is None or m.traces:
        return m.unknown(node)
    one = m.tensor("tf", node)
    one.place, one.flags = graph, frozenset({"variable", "some"})
    made = m.seq("list", [], node)
    made.rest = one
    return made


def placeholder(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """`tf.placeholder(…)`: TensorFlow 2 rejects it where no graph is the default."""
    eager = current_graph(m) is None and not m.traces and is_eager(m)
    if eager and name.startswith("tensorflow.compat.v1."):
        m.add_fact(facts.EagerInSession(use=m.spot(node), birth=None, placeholder=True))
    made = m.tensor("tf", node)
    place(m, made, [], node)
    return made


def is_eager(m: Interpreter) -> bool:
    """Whether the program surely runs operations immediately: nothing may have turned that off."""
    return bool(m.world.script and m.world.second_version and not m.world.may_turn_off)


def place(m: Interpreter, made: Tensor, inputs: list[Tensor], node: ast.AST) -> None:
    """Note the graph of a new operation, and whether its inputs belong to the same."""
    if m.traces:
        return
    graph = current_graph(m)
    if m.world.thread is not None and not m.world.graphs:  # an operation goes where its inputs are
        graph = next((one.place for one in inputs if one.fw == "tf" and one.place is not None), graph)
    made.place = graph
    for one in inputs:
        eager = one.fw == "tf" and one.place is None and one.trace is None and not one.flags
        if graph is not None and eager and not m.world.graph_mode and is_eager(m):
            m.add_fact(facts.EagerInGraph(use=m.spot(node), birth=one.born))
        if (
            one.fw != "tf"
            or one.place is None
            or "some" in one.flags
            or ("variable" in one.flags and one.place is None)
        ):
            continue
        if graph is not None and one.place is not graph:
            cause = m.world.reset if one.place in m.world.dead_graphs else None
            m.add_fact(facts.OtherGraph(use=m.spot(node), birth=one.born, end=cause, reset=cause is not None))
    added(m, graph, node)


def added(m: Interpreter, graph: Any, node: ast.AST) -> None:
    """Note that an operation is added to a graph, in the loops that run."""
    if graph is not None and not m.traces:
        once = any("once" in marks for marks in m.world.guards)
        for loop in m.loops if not once else ():
            if loop.turn and loop.uid not in getattr(graph, "loops", ()):  # not only the first time
                m.world.ops_in_loop.append((loop, m.spot(node), _statement(m, loop, node)))


def _statement(m: Interpreter, loop: Loop, node: ast.AST) -> ast.AST:
    """The call in a loop's own body that leads here."""
    inner = {id(one) for one in ast.walk(loop.node)} if m.sites else set()
    return next((site.node for site in m.sites if id(site.node) in inner), node)
