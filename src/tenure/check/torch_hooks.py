"""Hooks of torch: what they see, what they keep, and whether anybody takes them off again."""

from __future__ import annotations

import ast

from tenure.check import autograd, cycles, keeping
from tenure.check.machine import Machine
from tenure.check.values import Obj, Tensor, Value, best


def register(m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    """`module.register_…_hook(f)`."""
    handle = m.obj("hook handle", node)
    function = best(args[0] if args else kwargs.get("hook", m.unknown(node)))
    kind = "backward" if "backward" in name else "pre" if "pre" in name else "forward"
    owner.state.setdefault("hooks", []).append((function, handle, kind))
    loop = keeping.outlived(m, owner)
    if loop is not None:
        m.held.append(keeping.Held("handle", handle, owner, m.spot(node), loop))
    for captured in cycles.objects(function):
        if any(part is owner for part in autograd.parts(captured)) and captured.family == "torch.Module":
            m.world.setdefault("cycles", []).append((captured, m.spot(node), "hook"))
    if kind == "backward":
        _call(m, function, [owner, m.unknown(node), m.unknown(node)], node, "backward")
    return handle


def run(m: Machine, owner: Obj, args: list[Value], made: Value, node: ast.AST) -> None:
    """A module was called: its hooks see it."""
    for function, handle, kind in list(owner.state.get("hooks", ())):
        if kind == "forward" and handle.state.get("removed") is None:
            inputs = m.seq("tuple", list(args), node)
            _call(m, function, [owner, inputs, made], node, "forward")


def _call(m: Machine, function: Value, args: list[Value], node: ast.AST, kind: str) -> None:
    from tenure.check.calls import call

    before = m.world.get("hook")
    m.world["hook"] = kind
    try:
        call(m, function, args, {}, node)
    finally:
        m.world["hook"] = before


def on_tensor(m: Machine, owner: Tensor, args: list[Value], node: ast.Call) -> Value:
    """`tensor.register_hook(f)`: an `f` that holds the tensor makes a cycle that only the collector ends."""
    handle = m.obj("hook handle", node)
    function = best(args[0]) if args else None
    if function is not None and any(one is owner or one.store is owner.store for one in keeping.captures(m, function)):
        certain = owner.graph or owner.fw == "torch"
        if certain and not owner.leaf and (m.loops or m.calls):
            m.tell("tensor hook cycle", [("holder", m.spot(node)), ("birth", owner.born)])
    return handle
