"""torch's modules and optimizers: what their methods do."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Func, Map, Num, Obj, Seq, Tensor, Value, Wrapped
from tenure.check.language.iteration import parameter
from tenure.check.lifetimes import graphs, optimizer_groups
from tenure.check.models import torch_calls, torch_hooks
from tenure.check.value_queries import best, inside, tensors

_APPLIED = 6  # modules that `model.apply(f)` is followed for


def object_attribute(m: Interpreter, owner: Obj, name: str, node: ast.AST) -> Value | None:
    """Attributes of torch's own objects."""
    if owner.kind.startswith("torch.nn.") and name in ("weight", "bias"):
        made = m.tensor("torch", node, graph=False)
        made.leaf, made.flags = not owner.state.frozen, frozenset({"param"})
        made.state.owner = owner
        if owner.state.emptied is not None:
            made.store.state.ended = owner.state.emptied
        owner.attrs[name] = made
        return made
    if owner.kind == "optimizer" and name == "param_groups":
        optimizer_groups.read(m, owner)
    if owner.kind == "optimizer" and name == "state":
        return m.obj("optimizer state", node)
    if owner.family == "torch.Module" and name == "training":
        return Const(value=False) if owner.state.training is False else Num()
    return None


def object_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """Methods of modules, optimizers, distributions and hook handles."""
    if owner.kind == "optimizer":
        return _optimizer_method(m, owner, name, args, kwargs, node)
    if owner.kind.endswith(".GradScaler"):
        return _scaler_method(m, name, args, kwargs, node)
    if owner.kind == "hook handle":
        if name == "remove":
            m.set_state(owner.state, "removed", m.spot(node))
        return NONE
    if owner.kind == "autograd ctx":
        if name == "save_for_backward":
            owner.state.saved = args
        return NONE
    if owner.kind == "distribution":
        inputs = owner.state.inputs
        if name == "sample":
            return m.tensor("torch", node, graph=False)
        made = m.tensor("torch", node, op=name, parents=[*inputs, *(t for value in args for t in tensors(value))])
        graphs.save(m, made, inputs, name)
        return made
    if owner.family != "torch.Module":
        if name == "backward" and args:
            return torch_calls.backward_call(m, best(args[0]), args[1:], kwargs, node)
        return None
    return _module_method(m, owner, name, args, kwargs, node)


def _scaler_method(
    m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """A gradient scaler multiplies the loss, and calls the step of the optimizer."""
    first = best(args[0]) if args else NONE
    if name == "scale" and isinstance(first, Tensor):
        return (
            m.result("torch", [first], node, "mul", saves="nothing")
            if first.fw == "torch"
            else m.unknown_of([first], node)
        )
    if name == "step" and isinstance(first, Obj) and first.kind == "optimizer":
        return _optimizer_method(m, first, "step", args[1:], kwargs, node)
    return NONE if name in ("unscale_", "update") else None


def _optimizer_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    if name == "step":
        stale = owner.state.stale
        if isinstance(stale, tuple):
            m.add_fact(facts.ParametersReplaced(use=owner.born, escape=stale[0], birth=stale[1].born, end=m.spot(node)))
        zeroed = owner.state.zeroed_at
        if isinstance(zeroed, tuple) and m.loops and m.clock - zeroed[0] == 1 and m.world.backward_in_loop:
            m.add_fact(facts.GradientResetBeforeStep(use=m.spot(node), end=zeroed[1]))
        graphs.stepped(m, owner, m.spot(node))
        m.world.step_clocks.append(m.clock)
        if args and isinstance(best(args[0]), (Func, Wrapped)):
            return m.call(args[0], [], {}, node)
        return NONE
    if name == "zero_grad":
        keep = kwargs.get("set_to_none", args[0] if args else None)
        m.world.zeroed = True
        m.set_state(owner.state, "zeroed_at", (m.clock, m.spot(node)))
        if not (isinstance(keep, Const) and keep.value is False):
            _grads_reset(m, owner.state.modules, m.spot(node))
            m.world.grads_cleared = True
        return NONE
    if name == "load_state_dict":
        return NONE
    if name == "add_param_group":
        owner.state.stale = None
        optimizer_groups.added(m, owner, args[0] if args else kwargs.get("param_group", NONE), node)
    return m.unknown(node)


def _grads_reset(m: Interpreter, modules: Sequence[Any], spot: Any) -> None:
    m.world.cleared_modules.extend(modules or [None])
    for module in modules:
        m.set_state(module.state, "grads_reset", spot)
        known = module.state.parameter
        if isinstance(known, Tensor):
            m.set_state(known.state, "reset", spot)
            if known.state.grad_value is not None:
                m.set_state(known.state, "grad_value", NONE)
        m.world.reset_modules.append(module)


def _params(m: Interpreter, owner: Any, node: ast.AST, kind: str = "generator") -> Seq:
    made = m.seq(kind, [], node)
    made.state.of = owner
    return made


def _module_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    if name in ("parameters", "buffers"):
        return _params(m, owner, node)
    if name == "named_parameters":
        made = _params(m, owner, node)
        pair = m.seq("tuple", [Num(), parameter(m, _params(m, owner, node), node)], node)
        made.rest = pair
        return made
    if name in ("modules", "children", "named_modules", "named_children"):
        direct = name.endswith("children")
        inner = [(key, one) for key, value in owner.attrs.items() for one in inside(value) if isinstance(one, Obj)]
        found: list[Value] = [one for _, one in inner] if direct else list(graphs.parts(owner))
        if name.startswith("named"):
            names = [Const(key) for key, _ in inner] if direct else [Num()] * len(found)
            found = [m.seq("tuple", [key, one], node) for key, one in zip(names, found, strict=True)]
        made = m.seq("generator", found[:12], node)
        made.state.modules = True
        return made
    if name == "state_dict":
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.state.alias_of = owner
        known = parameter(m, _params(m, owner, node), node)
        store = known.store if isinstance(known, Tensor) else None
        made_map.rest = m.tensor("torch", node, store=store, graph=False)  # detached: no leaves
        return made_map
    if name in ("to", "cuda", "cpu", "train", "eval", "double", "float", "half", "bfloat16", "requires_grad_", "apply"):
        if name == "requires_grad_":
            wanted = args[0] if args else kwargs.get("requires_grad", Const(value=True))
            graphs.freeze(m, owner, frozen=not (isinstance(wanted, Const) and wanted.value is True))
        if name == "apply" and args and isinstance(best(args[0]), (Func, Wrapped)):
            for part in graphs.parts(owner)[:_APPLIED]:
                m.call(args[0], [part], {}, node)
        if name in ("eval", "train"):
            off = bool(args) and isinstance(args[0], Const) and not args[0].value
            for part in graphs.parts(owner):
                m.set_state(part.state, "training", name == "train" and not off)
            m.world.evaluates = m.world.evaluates or name == "eval"
        return owner
    if name == "zero_grad":
        m.world.zeroed = True
        _grads_reset(m, [owner], m.spot(node))
        m.world.grads_cleared = True
        return NONE
    if name == "load_state_dict":
        for one in inside(args[0]) if args else ():
            if isinstance(one, Map) and one.state.alias_of is not None:
                m.set_state(one.state, "loaded", m.spot(node))
                one.state.loaded_at = m.clock
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
        return torch_calls.backward_call(m, best(args[0]), args[1:], kwargs, node)
    if name == "manual_backward" and args:
        return torch_calls.backward_call(m, best(args[0]), args[1:], kwargs, node)
    if name in ("get_parameter", "get_submodule"):
        return m.unknown(node)
    return None
