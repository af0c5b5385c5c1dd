"""Reads of containers: which were looked into, which of their records' fields were, and where that is not known."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import syntax
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Const, Map, Seq, Tensor, Value
from tenure.check.value_queries import inside, options

# Methods that put something into a container. Their receiver is not read.
ADDING = frozenset(
    ["append", "appendleft", "add", "insert", "extend", "setdefault", "update", "put", "put_nowait", "clear"]
)
# Functions that ask about a container without reading what is in it.
_LAST = (-1, -2, -3)
ABOUT = frozenset(["len", "id", "bool", "type", "isinstance"])


def loaded(m: Interpreter, value: Value, node: ast.AST) -> None:
    """A name or attribute is evaluated: if it is a container, whatever is in it counts as read."""
    m.visited.add(id(node))
    if type(value) is not Tensor:
        for one in options(value):
            if isinstance(one, (Seq, Map)):
                seen(m, one)


def seen(m: Interpreter, container: Seq | Map) -> None:
    """All that is in a container is read."""
    whole: Any = container
    while whole is not None:
        if not whole.state.seen:
            whole.state.seen = True
            m.read_containers.append(whole)
        whole = whole.state.origin


def walked(m: Interpreter, container: Value) -> None:
    """A loop goes over a container: its records are read where their fields are, everything else is read now."""
    for one in options(container):
        if isinstance(one, Seq):
            whole: Any = one
            while whole is not None:
                whole.state.walked = True
                whole = whole.state.origin
            parts = [*one.items, one.rest]
            of_lists = isinstance(one.state.origin, Map) and holds_lists(one.state.origin)
            if not of_lists and not all(part is None or isinstance(part, Map) for part in parts):
                seen(m, one)
        elif isinstance(one, Map):
            seen(m, one)


def holds_lists(container: Map) -> bool:
    """Whether all that is in a dict are lists: what is in those is read where they are."""
    parts = [*container.attrs.values(), *([container.rest] if container.rest is not None else [])]
    return bool(parts) and all(isinstance(one, Seq) for part in parts for one in options(part))


def indexed(m: Interpreter, container: Value, index: Value) -> None:
    """`container[index]` is read: one field of a record, one of the last items of a list, or any part of something else."""
    for one in options(container):
        last = isinstance(one, Seq) and isinstance(index, Const) and index.value in _LAST
        if isinstance(one, (Map, Seq)) and isinstance(index, Const) and (last or isinstance(one, Map)):
            record: Any = one
            while record is not None:
                record.state.fields_read = record.state.fields_read | {index.value}
                record = record.state.origin
        elif isinstance(one, Map):
            seen(m, one)
        else:
            walked(m, one)


def unread(m: Interpreter, holder: Seq | Map, record: Value, value: Tensor, spot: Any) -> bool:
    """Whether it is certain that nothing reads a value that was put into a container."""
    if m.world.unfinished or not _all_visited(m, spot):
        return False
    read = {id(part) for one in m.read_containers for part in inside(one, 400)}
    if id(holder) in read or holder.state.escaped or holder.state.returned:
        return False
    if holder.state.fields_read and (isinstance(holder, Map) or "scalar" in value.flags):
        return False  # of a list, these are the last items: those before them are not needed
    if holder.state.walked:
        if not isinstance(record, Map):
            return False
        fields = record.state.fields_read
        own = [key for key, one in record.attrs.items() if any(part is value for part in inside(one))]
        return id(record) not in read and bool(own) and not any(key[1] in fields for key in own)
    return True


def _all_visited(m: Interpreter, spot: Any) -> bool:
    """Whether all source that reads the container by its name was followed; if not, it may be read there."""
    target = _receiver(spot.node)
    if isinstance(target, ast.Attribute):
        attributes = (one for one in spot.module.nodes if isinstance(one, ast.Attribute) and one.attr == target.attr)
        return all(id(one) in m.visited for one in attributes if isinstance(one.ctx, ast.Load))
    if isinstance(target, ast.Name):
        names = (one for one in syntax.nodes(_scope(spot, target)) if isinstance(one, ast.Name) and one.id == target.id)
        return all(id(one) in m.visited for one in names if isinstance(one.ctx, ast.Load))
    return False


def _receiver(node: Any) -> Any:
    """The name or attribute that a statement adds to."""
    while not isinstance(node, (ast.Name, ast.Attribute)):
        if isinstance(node, ast.Call):
            node = node.func.value if isinstance(node.func, ast.Attribute) else None
        elif isinstance(node, ast.AugAssign):
            node = node.target
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return None
    return node


def _scope(spot: Any, name: ast.Name) -> ast.AST:
    """The function that a name is local to; the whole file for a global name."""
    found: ast.AST = spot.module.tree
    for one in spot.module.nodes:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.lineno <= name.lineno <= (
            one.end_lineno or 0
        ):
            inside_ = syntax.nodes(one)
            shared = any(isinstance(part, (ast.Global, ast.Nonlocal)) and name.id in part.names for part in inside_)
            local = any(
                (isinstance(part, ast.Name) and part.id == name.id and isinstance(part.ctx, ast.Store))
                or (isinstance(part, ast.arg) and part.arg == name.id)
                for part in inside_
            )
            if local and not shared:
                found = one  # the innermost comes last
                break
    return found
