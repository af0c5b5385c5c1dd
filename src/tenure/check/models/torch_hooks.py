"""Hooks of torch: what they see, what they keep, and whether anybody takes them off again."""

from __future__ import annotations

import ast

from tenure.check import facts, kept
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Obj, Tensor, Value
from tenure.check.lifetimes import cycles, graphs, retention
from tenure.check.value_queries import best


def register(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """`module.register_…_hook(f)`."""
    handle = m.obj("hook handle", node)
    function = best(args[0] if args else kwargs.get("hook", m.unknown(node)))
    kind = "backward" if "backward" in name else "pre" if "pre" in name else "forward"
    owner.state.hooks = (*owner.state.hooks, (function, handle, kind))
    m.world.forward_pre_hooks = m.world.forward_pre_hooks or kind == "pre"
    loop = retention.outlived(m, owner)
    if loop is not None:
        m.kept.append(kept.Handle(m.spot(node), loop, handle, owner))
    for captured in cycles.objects(function):
        if any(part is owner for part in graphs.parts(captured)) and captured.family == "torch.Module":
            m.world.cycles.append((captured, m.spot(node), "hook"))
    if kind == "backward":
        _call(m, function, [owner, m.unknown(node), m.unknown(node)], node, "backward")
    return handle


def run(m: Interpreter, owner: Obj, args: list[Value], made: Value, node: ast.AST) -> None:
    """A module was called: its hooks see it."""
    for function, handle, kind in list(owner.state.hooks):
        if kind == "forward" and handle.state.removed is None:
            inputs = m.seq("tuple", list(args), node)
            _call(m, function, [owner, inputs, made], node, "forward")


def _call(m: Interpreter, function: Value, args: list[Value], node: ast.AST, kind: str) -> None:
    before = m.world.hook
    m.world.hook = kind
    try:
        m.call(function, args, {}, node)
    finally:
        m.world.hook = before


def on_tensor(m: Interpreter, owner: Tensor, args: list[Value], node: ast.Call) -> Value:
    """`tensor.register_hook(f)`: an `f` that holds the tensor makes a cycle that only the collector ends."""
    handle = m.obj("hook handle", node)
    function = best(args[0]) if args else None
    if function is not None and any(
        one is owner or one.store is owner.store for one in retention.captures(m, function)
    ):
        certain = owner.graph or owner.fw == "torch"
        if certain and not owner.leaf and (m.loops or m.calls):
            m.add_fact(facts.TensorHookCycle(holder=m.spot(node), birth=owner.born))
    elif function is not None and not owner.leaf:
        for held in cycles.objects(function):
            m.world.tensor_hooks.append((owner, held, m.spot(node)))
    return handle
