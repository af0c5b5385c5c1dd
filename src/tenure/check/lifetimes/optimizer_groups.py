"""Parameters of modules that were replaced: an optimizer keeps them, with its state of them, until they are taken out."""

from __future__ import annotations

import ast
import re
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Map, Obj, Seq, Tensor, Value
from tenure.check.lifetimes import retention
from tenure.check.value_queries import inside

_REMOVED = re.compile(r"\.state\.(?:pop|clear|popitem)\(|del [^\n]*\.state\[|\.state = |\.__setstate__|load_state_dict")


def added(m: Interpreter, optimizer: Obj, group: Value, node: ast.AST) -> None:
    """`optimizer.add_param_group(group)`."""
    modules = [one.state.of for one in inside(group) if isinstance(one, (Seq, Map)) and isinstance(one.state.of, Obj)]
    known = m.world.groups.setdefault(id(optimizer), [])
    if m.loops and retention.outlived(m, optimizer) is not None and not m.conditions:
        for old in known:
            if id(old) in m.world.replaced and old not in modules and old.loops:
                m.world.group_facts.append((optimizer, m.spot(node), old))
                break
    known.extend(modules)


def read(m: Interpreter, optimizer: Obj) -> None:
    """`optimizer.param_groups` is read: code may take groups out."""
    m.world.groups_read.add(id(optimizer))


def state_set(m: Interpreter, key: Value, node: ast.AST) -> None:
    """`optimizer.state[new] = …`, of a parameter that replaces another one in a group."""
    if not (isinstance(key, Tensor) and "param" in key.flags and m.loops and m.frame.node is not None):
        return
    if key.born.function != m.frame.function:
        return
    written = getattr(node, "slice", None)
    if _put_into_group(m.frame.node, written) and not _REMOVED.search(m.frame.module.text):
        m.add_fact(facts.GroupsKept(holder=m.spot(node), birth=key.born))


def _put_into_group(function: ast.AST, key: Any) -> bool:
    """Whether a function has `group["params"][0] = key`."""
    for one in ast.walk(function):
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Name) and isinstance(key, ast.Name):
            target: Any = one.targets[0]
            names = {
                part.value
                for part in ast.walk(target)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
            if one.value.id == key.id and isinstance(target, ast.Subscript) and "params" in names:
                return True
    return False


def add_facts(m: Interpreter) -> None:
    """Report the groups that are added again and again."""
    for optimizer, spot, old in m.world.group_facts:
        if m.world.script and id(optimizer) not in m.world.groups_read and not optimizer.state.escaped:
            m.add_fact(facts.GroupsKept(holder=spot, birth=old.born))
