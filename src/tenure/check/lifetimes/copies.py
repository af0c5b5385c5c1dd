"""Copies: a tensor that was computed with gradients cannot be copied by `deepcopy`, nor sent to another process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Class, Either, Map, Obj, Seq, Spot, Tensor, Value

_OWN = ("__deepcopy__", "__getstate__", "__reduce__", "__reduce_ex__")


def deepcopied(m: Interpreter, value: Value, node: ast.AST) -> None:
    """`copy.deepcopy(value)`."""
    _copied(m, value, node, "deepcopy")


def sent(m: Interpreter, value: Value, node: ast.AST) -> None:
    """A value is sent to another process."""
    _copied(m, value, node, "process")


def _copied(m: Interpreter, value: Value, node: ast.AST, how: Literal["deepcopy", "process"]) -> None:
    if m.traces or m.world.thread is not None:
        return
    for one, spot in _parts(value, None, 0):
        if one.fw == "torch" and one.graph and not one.leaf and not one.state.alternative and _certain(one):
            m.add_fact(facts.GraphCopied(birth=one.born, escape=spot, use=m.spot(node), how=how))
            return


def _certain(tensor: Tensor) -> bool:
    node = tensor.node
    return node is not None and not node.state.unknown and not {"param", "buffer", "data"} & tensor.flags


def _parts(value: Value, spot: Spot | None, depth: int) -> Iterator[tuple[Tensor, Spot | None]]:
    """The tensors that are surely copied with a value, and where those in attributes were set."""
    if isinstance(value, Tensor):
        yield value, spot
    elif depth > 5 or isinstance(value, Either):
        return
    elif isinstance(value, Seq) and value.kind in ("list", "tuple", "set", "deque"):
        for one in value.items or ([value.rest] if value.rest is not None else []):
            yield from _parts(one, spot, depth + 1)
    elif isinstance(value, Map):
        for one in value.attrs.values():
            yield from _parts(one, spot, depth + 1)
    elif isinstance(value, Obj) and not _copies_itself(value.cls):
        for name, one in value.attrs.items():
            yield from _parts(one, value.state.written.get(name, spot), depth + 1)


def _copies_itself(cls: Class | None) -> bool:
    return cls is not None and any(cls.find(name) is not None for name in _OWN)
