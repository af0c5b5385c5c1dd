"""Methods of values of which nothing is known but the name of the method."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Map, Node, Num, Obj, Tensor, Value
from tenure.check.language import standard_library
from tenure.check.lifetimes import escapes, graphs, retracing, uses
from tenure.check.models import devices, tensorflow_sessions, torch_calls, trainers
from tenure.check.value_queries import best, inside

_PASSING = frozenset(
    [
        "mean",
        "sum",
        "clone",
        "float",
        "double",
        "cpu",
        "cuda",
        "to",
        "squeeze",
        "view",
        "reshape",
        "unsqueeze",
        "div",
        "mul",
        "add",
        "sub",
        "neg",
        "contiguous",
        "half",
    ]
)


def method(
    m: Interpreter, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of something that may be a tensor, a model, a file or anything else."""
    if name in torch_calls.NUMBERS:
        return Num()
    uses.use(m, owner, node)
    if name in ("readinto", "recv_into", "readinto1"):
        for one in (best(arg) for arg in args):
            if isinstance(one, Obj) and one.kind == "buffer" and one.state.store is not None:
                graphs.written(m, one.state.store, m.spot(node))
        return Num()
    if name in ("eval", "train") and not args and "torch" in m.frame.module.text:
        owner.state.evaluated = name == "eval"
        return owner
    if name == "state_dict" and not args:
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.state.alias_of = owner
        made_map.rest = m.unknown(node)
        return made_map
    if name == "load_state_dict":
        for arg in args[:1]:
            for one in inside(arg):
                if isinstance(one, Map) and one.state.alias_of is not None:
                    m.set_state(one.state, "loaded", m.spot(node))
                    one.state.loaded_at = m.clock
        return NONE
    if name == "fit":
        for driven in (best(arg) for arg in [*args, *kwargs.values()]):
            if isinstance(driven, Obj) and driven.cls is not None and trainers.drives(driven.cls):
                trainers.drive(m, driven, node)
                return NONE
    if name == "run_in_executor" and len(args) > 1:
        standard_library.run_in_thread(m, args[1], args[2:], node)
        return m.unknown(node)
    if name == "run":
        tensorflow_sessions.runs_unknown(m, args)
        retracing.handed_over(m, args, node)
    if name == "zero_grad":
        m.world.cleared_modules.append(None)
        m.world.zeroed = m.world.grads_cleared = True
    if name == "step":
        m.world.step_clocks.append(m.clock)
    escapes.escape(m, [*args, *kwargs.values()], node)
    made = m.unknown_of([owner, *args, *kwargs.values()], node)
    devices.moved(owner, made, name, args)
    made.state.evaluated = owner.state.evaluated and name in ("to", "cuda", "cpu", "half", "float")
    if name in _PASSING and owner.node is not None:
        made.node = Node(name, made.born, (owner.node,), m.turn())
    elif name in ("squeeze", "view", "reshape", "unsqueeze"):
        made.flags = owner.flags & {"worker"}
    return made
