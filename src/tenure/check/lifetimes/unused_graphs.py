"""Forward passes that build a graph which no backward pass uses: `no_grad` was forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tenure.check import facts, syntax
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Node, Obj, Tensor, Value
from tenure.check.lifetimes import graphs
from tenure.check.syntax import Loop
from tenure.check.value_queries import tensors
from tenure.check.world import Assumed, Pass

# Decorators after which a function still runs in its caller's grad mode.
_KEEP_MODE = frozenset(
    ["property", "staticmethod", "classmethod", "abstractmethod", "override", "cached_property", "contextmanager"]
)
_FORWARD = frozenset(["forward", "__call__"])
# Methods that are not a forward pass, whatever they do.
_NOT_PASSES = frozenset(["__init__", "__setattr__", "__getattr__", "train", "eval", "to", "parameters", "state_dict"])


@contextmanager
def passing(m: Interpreter, owner: Any, given: list[Value], node: ast.AST, function: Any = None) -> Iterator[None]:
    """Note the call of a model, or of a method of it, with the nodes that it makes."""
    around = m.world.running_pass
    if not isinstance(owner, Obj) or owner.family != "torch.Module" or (around is not None and around.forward):
        yield
        return
    made = Pass(m.spot(node), owner, around, function is None or function.name in _FORWARD, m.turn())
    m.world.running_pass = made
    try:
        yield
    finally:
        m.world.running_pass = around
        if around is not None:
            around.nodes += made.nodes
    if not _begins(given, function):
        return
    saves = any(one.saves for one in made.nodes)
    made.unsure = m.grad[-1] != "grad" or not saves or bool(m.traces) or not _same_mode(m, function)
    made.kept, made.clock = _kept(made), m.clock
    made.loops = [one for one in m.loops if one.kind == "python"]
    made.evaluating = owner.state.training is False
    m.world.passes.setdefault(id(node), []).append(made)


def assumed(m: Interpreter, owner: Tensor, made: Tensor, node: ast.AST) -> None:
    """Note the call of what is probably a model, in evaluation mode."""
    unsure = m.grad[-1] != "grad" or bool(m.traces) or not _same_mode(m, None)
    loops = [one for one in m.loops if one.kind == "python"]
    one = Assumed(m.spot(node), owner, made, m.turn(), m.clock, loops, unsure)
    m.world.assumed.setdefault(id(node), []).append(one)


def _kept(made: Pass) -> bool:
    nodes = {id(node) for node in made.nodes}
    found = (one for part in graphs.parts(made.owner) for value in part.attrs.values() for one in tensors(value))
    return any(one.node is not None and id(one.node) in nodes for one in found)


def _begins(given: list[Value], function: Any) -> bool:
    """Whether this call starts a graph, and does not continue one."""
    if function is not None and function.name in _NOT_PASSES:
        return False
    return not any(one.graph for value in given for one in tensors(value))


def _same_mode(m: Interpreter, function: Any) -> bool:
    """Whether gradients are certainly on: no unknown decorator or `with` may have switched them off."""
    if m.world.unknown_contexts or m.world.thread is not None or m.world.hook:
        return False
    bodies = [*m.calls, function.node] if function is not None else m.calls
    return all(_known(one) for body in bodies for one in getattr(body, "decorator_list", ()))


def _known(decorator: ast.expr) -> bool:
    name = getattr(decorator, "attr", getattr(decorator, "id", ""))
    return name in _KEEP_MODE


def add_facts(m: Interpreter) -> None:
    """Report the calls whose graphs nothing used, once for each place, and at the innermost place."""
    if not m.world.script or m.world.unfinished:
        return
    _examine_assumed(m)
    reported: set[int] = set()
    groups = list(m.world.passes.values())
    for passes in sorted(groups, key=lambda group: -_depth(group[0])):
        if any(one.unsure or _used(one) or (_is_part(one) and not _used(one.around)) for one in passes):
            continue
        if any(
            (one.kept and m.world.blind_backwards) or _within(one, m.world.blind_backwards) or _joined(m, one)
            for one in passes
        ):
            continue
        first = passes[0]
        intended = any(one.evaluating for one in passes) or m.world.trains
        if intended and any(syntax.many_turns(loop) and not _once(loop) for loop in first.loops):
            if not all(id(one) in reported for one in passes):
                m.add_fact(facts.GraphUnused(use=first.spot, birth=first.owner.born))
            reported.update(id(one.around) for one in passes if one.around is not None)


def _examine_assumed(m: Interpreter) -> None:
    for calls in m.world.assumed.values():
        first = calls[0]
        if any(one.unsure or one.made.state.returned or _within(one, m.world.backwards) for one in calls):
            continue
        if any(syntax.many_turns(loop) and not _once(loop) for loop in first.loops):
            fact = facts.GraphUnused(use=first.spot, birth=first.owner.born)
            fact.likely = True
            m.add_fact(fact)


def _within(one: Pass | Assumed, backwards: Sequence[tuple[int, tuple[tuple[int, int], ...]]]) -> bool:
    """Whether one of these backward passes follows in the same iteration."""
    return any(clock >= one.clock and turn[: len(one.turn)] == one.turn for clock, turn in backwards)


def _once(loop: Loop) -> bool:
    """Whether a loop ends in its first iteration: it only takes the first batch."""
    return any(isinstance(one, ast.Break) for one in getattr(loop.node, "body", ()))


def _joined(m: Interpreter, one: Pass) -> bool:
    """Whether its result shares a name with an older one, and a backward pass follows that may begin at either."""
    return any(node.state.joined for node in one.nodes) and _within(one, m.world.backwards)


def _is_part(one: Pass) -> bool:
    """Whether it is the call of a part of the model, in a method of the model."""
    return one.around is not None and one.around.owner is not one.owner


def _depth(one: Pass) -> int:
    return 0 if one.around is None else 1 + _depth(one.around)


def _used(one: Pass | None) -> bool:
    """Whether a backward pass goes through it, or could."""
    return one is not None and any(_node_used(node, one) for node in one.nodes)


def _node_used(node: Node, one: Pass) -> bool:
    if (cut := node.state.cut) and (cut == "at once" or not one.evaluating):
        return True  # the program itself separates its result from the graph
    waiting, seen = [node], {id(node)}
    while waiting:
        for part in (current := waiting.pop()).state.alternatives:
            if id(part) not in seen and len(seen) < 200:
                seen.add(id(part))
                waiting.append(part)
        state = current.state
        if state.differentiated or state.retained or state.escaped or state.reported:
            return True
    return False
