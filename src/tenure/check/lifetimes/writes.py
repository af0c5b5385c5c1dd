"""Tensors that are changed in place."""

from __future__ import annotations

import ast

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Node, Tensor
from tenure.check.lifetimes import graphs, retention
from tenure.check.lifetimes.uses import use


def written(m: Interpreter, tensor: Tensor, node: ast.AST, how: str, values: list[Tensor]) -> None:
    """A tensor is changed in place."""
    use(m, tensor, node)
    if tensor.fw not in ("torch", "np", None):
        return
    if "expanded" in tensor.flags and tensor.fw == "torch":
        m.add_fact(facts.ExpandedWritten(use=m.spot(node), birth=tensor.store.state.expanded or tensor.born))
    if "inference" in tensor.flags and m.grad[-1] != "inference" and tensor.fw == "torch":
        m.add_fact(facts.InferenceChanged(use=m.spot(node), birth=tensor.born))
    elif (
        (tensor.leaf or tensor.state.of_leaf)
        and m.grad[-1] == "grad"
        and not m.world.unknown_contexts  # they may switch gradients off
        and tensor.fw == "torch"
        and "data" not in tensor.flags
    ):
        m.add_fact(facts.LeafChanged(use=m.spot(node), birth=tensor.born))
    graphs.written(m, tensor.store, m.spot(node), data="data" in tensor.flags)
    shared_write(m, tensor, node)
    # The tensor now depends on what was written into it.
    if m.grad[-1] == "grad" and any(v.graph or v.leaf for v in values) and tensor.fw == "torch":
        tensor.graph = True
        above = tuple(v.node for v in (tensor, *values) if v.node is not None)
        tensor.node = Node("add", m.spot(node), above, m.turn())
        if retention.outlived(m, tensor):
            m.note_slot(tensor, None, m.spot(node))


def shared_write(m: Interpreter, tensor: Tensor, node: ast.AST) -> None:
    """A write in a thread to what other threads write too."""
    thread = m.world.thread
    if thread is not None and not m.world.locks:
        thread.writes.append((tensor.store, m.spot(node)))
