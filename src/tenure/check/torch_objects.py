"""torch's modules and optimizers: what their methods do."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import autograd, torch_hooks, torch_model
from tenure.check.iteration import parameter
from tenure.check.machine import Machine
from tenure.check.values import NONE, Const, Func, Map, Num, Obj, Seq, Tensor, Value, Wrapped, best, inside, tensors


def object_attribute(m: Machine, owner: Obj, name: str, node: ast.AST) -> Value | None:
    """Attributes of torch's own objects."""
    if owner.kind.startswith("torch.nn.") and name in ("weight", "bias"):
        made = m.tensor("torch", node, graph=False)
        made.leaf, made.flags = True, frozenset({"param"})
        made.state["owner"] = owner
        owner.attrs[name] = made
        return made
    if owner.family == "torch.Module" and name == "training":
        return Num()
    return None


def object_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """Methods of modules, optimizers, distributions and hook handles."""
    if owner.kind == "optimizer":
        return _optimizer_method(m, owner, name, args, kwargs, node)
    if owner.kind == "hook handle":
        if name == "remove":
            m.put(owner.state, "removed", m.spot(node))
        return NONE
    if owner.kind == "distribution":
        inputs = owner.state["inputs"]
        if name == "sample":
            return m.tensor("torch", node, graph=False)
        made = m.tensor("torch", node, op=name, parents=[*inputs, *(t for value in args for t in tensors(value))])
        autograd.save(m, made, inputs, name)
        return made
    if owner.family != "torch.Module":
        if name == "backward" and args:
            return torch_model.backward_call(m, best(args[0]), args[1:], kwargs, node)
        return None
    return _module_method(m, owner, name, args, kwargs, node)


def _optimizer_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    if name == "step":
        stale = owner.state.get("stale")
        if isinstance(stale, tuple):
            m.tell(
                "parameters replaced",
                [("use", owner.born), ("escape", stale[0]), ("birth", stale[1].born), ("end", m.spot(node))],
            )
        zeroed = owner.state.get("zeroed at")
        if zeroed is not None and m.loops and m.clock - zeroed[0] == 1 and m.world.get("backward in loop"):
            m.tell("gradient reset before step", [("use", m.spot(node)), ("end", zeroed[1])])
        autograd.stepped(m, owner, m.spot(node))
        m.world.setdefault("step clocks", []).append(m.clock)
        if args and isinstance(best(args[0]), (Func, Wrapped)):
            from tenure.check.calls import call

            return call(m, args[0], [], {}, node)
        return NONE
    if name == "zero_grad":
        keep = kwargs.get("set_to_none", args[0] if args else None)
        m.world["zeroed"] = True
        owner.state["zeroed at"] = (m.clock, m.spot(node))
        if not (isinstance(keep, Const) and keep.value is False):
            _grads_reset(m, owner.state.get("modules", []), m.spot(node))
            m.world["grads cleared"] = True
        return NONE
    if name == "load_state_dict":
        return NONE
    if name == "add_param_group":
        owner.state["stale"] = None
    return m.unknown(node)


def _grads_reset(m: Machine, modules: list[Any], spot: Any) -> None:
    for module in modules:
        m.put(module.state, "grads reset", spot)
        known = module.state.get("parameter")
        if isinstance(known, Tensor):
            m.put(known.state, "reset", spot)
            if known.state.get("grad value") is not None:
                m.put(known.state, "grad value", NONE)
        m.world.setdefault("reset modules", []).append(module)


def _params(m: Machine, owner: Any, node: ast.AST, kind: str = "generator") -> Seq:
    made = m.seq(kind, [], node)
    made.state["of"] = owner
    return made


def _module_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    if name in ("parameters", "buffers"):
        return _params(m, owner, node)
    if name == "named_parameters":
        made = _params(m, owner, node)
        pair = m.seq("tuple", [Num(), parameter(m, _params(m, owner, node), node)], node)
        made.rest = pair
        return made
    if name in ("modules", "children", "named_modules", "named_children"):
        found: list[Value] = list(autograd.parts(owner))
        if name.startswith("named"):
            found = [m.seq("tuple", [Num(), one], node) for one in found]
        made = m.seq("generator", found[:6], node)
        made.state["modules"] = True
        return made
    if name == "state_dict":
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.state["alias of"] = owner
        made_map.rest = parameter(m, _params(m, owner, node), node)
        return made_map
    if name in ("to", "cuda", "cpu", "train", "eval", "double", "float", "half", "bfloat16", "requires_grad_", "apply"):
        if name == "requires_grad_" and args and isinstance(args[0], Const) and args[0].value is False:
            owner.state["frozen"] = True
        if name == "eval":
            m.world["evaluates"] = True
        return owner
    if name == "zero_grad":
        m.world["zeroed"] = True
        _grads_reset(m, [owner], m.spot(node))
        m.world["grads cleared"] = True
        return NONE
    if name == "load_state_dict":
        for one in inside(args[0]) if args else ():
            if isinstance(one, Map) and one.state.get("alias of") is not None:
                m.put(one.state, "loaded", m.spot(node))
                one.state["loaded at"] = m.clock
        return NONE
    if name.startswith("register_") and name.endswith("hook"):
        return torch_hooks.register(m, owner, name, args, kwargs, node)
    if name == "register_buffer" and len(args) > 1 and isinstance(args[0], Const):
        m.put(owner.attrs, args[0].value, args[1])
        return NONE
    if name in ("append", "insert", "add_module") and args:
        owner.attrs[str(len(owner.attrs))] = args[-1]
        return owner
    if name == "backward" and args:
        return torch_model.backward_call(m, best(args[0]), args[1:], kwargs, node)
    if name == "manual_backward" and args:
        return torch_model.backward_call(m, best(args[0]), args[1:], kwargs, node)
    if name in ("get_parameter", "get_submodule"):
        return m.unknown(node)
    return None
