"""Storages of torch that are resized to 0 bytes and filled again, as code does that shards or offloads weights."""

from __future__ import annotations

import ast

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Ended, Maybe, Obj, Tensor
from tenure.check.lifetimes import graphs, uses


def emptied(m: Interpreter, tensor: Tensor, node: ast.AST) -> None:
    """The bytes of a tensor end here; those of all weights of a module, if a loop over its parameters does it."""
    if "any parameter" not in tensor.flags:
        uses.end(m, tensor, "emptied", node)
    elif m.loops and not m.conditions and _over_parameters(m.loops[-1].node):
        ended: Ended = ("emptied", m.spot(node), tensor)
        for part in _modules(tensor):
            m.set_state(part.state, "emptied", ended)
        for one in _weights(tensor):
            m.set_state(one.store.state, "ended", ended)


def _over_parameters(loop: ast.AST) -> bool:
    """`for p in model.parameters():`."""
    source = loop.iter if isinstance(loop, ast.For) else None
    function = source.func if isinstance(source, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in ("parameters", "named_parameters")


def filled(m: Interpreter, tensor: Tensor) -> None:
    """A tensor has bytes again."""
    for store in [tensor.store, *(one.store for one in _weights(tensor))]:
        if store.state.ended is not None:
            m.set_state(store.state, "ended", None)
    for part in _modules(tensor):
        m.set_state(part.state, "emptied", None)


def called(m: Interpreter, module: Obj, node: ast.AST) -> None:
    """A module is called, which reads its weights; a hook may have filled them before."""
    ended = module.state.emptied
    if ended is not None and not isinstance(ended, Maybe) and not m.world.forward_pre_hooks:
        _, spot, which = ended
        born = which.born if isinstance(which, Tensor) else module.born
        m.add_fact(facts.UsedAfterEnd(use=m.spot(node), end=spot, birth=born, cause="emptied"))


def _modules(tensor: Tensor) -> list[Obj]:
    owner = tensor.state.owner
    any_of_them = isinstance(owner, Obj) and owner.state.parameter is tensor
    return graphs.parts(owner) if any_of_them else []


def _weights(tensor: Tensor) -> list[Tensor]:
    found = [one for part in _modules(tensor) for one in part.attrs.values()]
    return [one for one in found if isinstance(one, Tensor) and "param" in one.flags]
