"""Imports, and the one name that each imported thing has, whatever it is called here."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import ON, Interpreter
from tenure.check.abstract_values import Ref


def imported(m: Interpreter, node: ast.Import) -> int:
    """`import a.b as c`."""
    for alias in node.names:
        if alias.asname:
            m.assign(alias.asname, Ref(canonical(alias.name)), m.spot(node))
        else:
            top = alias.name.partition(".")[0]
            m.assign(top, Ref(canonical(top)), m.spot(node))
    return ON


def imported_from(m: Interpreter, node: ast.ImportFrom) -> int:
    """`from a import b`."""
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            m.frame.module.stars.append((module.lstrip("."), node.level))
            continue
        name = canonical(f"{module}.{alias.name}" if module.strip(".") else module + alias.name)
        m.assign(alias.asname or alias.name, Ref(name), m.spot(node))
    return ON


def canonical(name: str) -> str:
    """One name for what has several."""
    if name.startswith("tensorflow.keras"):
        return "keras" + name[len("tensorflow.keras") :]
    if name.startswith("tensorflow.python.keras"):
        return "keras" + name[len("tensorflow.python.keras") :]
    if name.startswith("torch.multiprocessing"):
        return name[len("torch.") :]
    return name


def made_global(m: Interpreter, node: ast.Global) -> int:
    """`global x`."""
    m.frame.globals.update(node.names)
    return ON


def made_nonlocal(m: Interpreter, node: ast.Nonlocal) -> int:
    """`nonlocal x`."""
    m.frame.nonlocals.update(node.names)
    return ON
