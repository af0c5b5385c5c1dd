"""Own autograd functions: `Function.apply` runs `forward` without gradients and makes one step of the graph."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Class, Func, Node, Obj, Tensor, Value
from tenure.check.lifetimes import graphs
from tenure.check.lifetimes.escapes import escape
from tenure.check.value_queries import best, inside, tensors


def apply(m: Interpreter, cls: Class, args: list[Value], node: ast.AST) -> Value:
    """The result of `Own.apply(…)`."""
    forward = cls.find("forward")
    if not isinstance(forward, Func) or cls.find("setup_context") is not None:
        escape(m, args, node)
        return m.unknown(node)
    given = [one for value in args for one in tensors(value)]
    needs = m.grad[-1] == "grad" and any(one.fw == "torch" and (one.graph or one.leaf) for one in given)
    ctx = m.obj("autograd ctx", node)
    m.grad.append("no_grad")
    try:
        made = m.call_function(forward, [ctx, *args], {}, node)
    finally:
        m.grad.pop()
    results = [one for one in inside(best(made)) if isinstance(one, Tensor) and one.fw == "torch"]
    if not needs or not results:
        return made
    step = Node(cls.name, m.spot(node), tuple(one.node for one in given if one.node is not None), m.turn())
    step.saves = True
    for one in results:
        one.graph, one.node = True, step
        one.flags -= {"inference"}
    saved = [one for value in ctx.state.saved for one in tensors(value)]
    graphs.save(m, results[0], saved, cls.name, "inputs")
    _outputs_kept(m, cls, ctx, results, step)
    return made


def _outputs_kept(m: Interpreter, cls: Class, ctx: Obj, results: list[Tensor], step: Node) -> None:
    """An output that is an attribute of its own step's `ctx` is in a cycle: output, step, ctx, output."""
    for name, value in ctx.attrs.items():
        spot = ctx.state.written.get(name)
        if spot is not None and any(one is best(value) for one in results):
            m.world.context_outputs.append((step, spot, step.born, _released(cls, name)))


def _released(cls: Class, name: str) -> bool:
    """Whether `backward` removes or replaces an attribute of ctx."""
    backward: Any = cls.find("backward")
    if not isinstance(backward, Func):
        return False
    return any(
        isinstance(one, ast.Attribute) and one.attr == name and isinstance(one.ctx, (ast.Store, ast.Del))
        for one in ast.walk(backward.node)
    )
