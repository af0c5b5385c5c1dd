"""Containers that are made of what they were: `seen = [*seen, x]`, `log = {**log, step: x}`, `self.seen = self.seen or []`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Class, Map, Obj, Seq, Value
from tenure.check.language import operators, places
from tenure.check.language.items import update
from tenure.check.value_queries import best, inside

_FORMS = frozenset([ast.BoolOp, ast.BinOp, ast.List, ast.Tuple, ast.Set, ast.Dict])
_COPIES = frozenset(["list", "tuple", "dict", "set"])


def assigned(m: Interpreter, node: ast.Assign) -> Value | None:
    """The container that an assignment in a loop makes longer, as `+=` does; None for any other assignment."""
    if not m.loops or type(node.value) not in _FORMS or len(node.targets) != 1:
        return None
    target, whole = node.targets[0], node.value
    if isinstance(whole, ast.BoolOp) and isinstance(whole.op, ast.Or) and _same(whole.values[0], target):
        return _lasting(m, target, m.evaluate(whole))
    old, added = _parts(whole, target)
    if old is None or added is None:
        return None
    left = best(places.place(m, target))
    if not isinstance(left, (Seq, Map)):
        return _lasting(m, target, m.evaluate(whole)) if isinstance(old, ast.BoolOp) else None
    if m.loops[-1].uid in left.loops or (isinstance(left, Seq) and left.kind == "generator"):
        return None
    right = best(m.evaluate(added))
    if isinstance(left, Seq) and isinstance(right, Seq):
        step = ast.copy_location(ast.AugAssign(target, ast.Add(), added), node)  # type: ignore[arg-type]
        return operators.augmented(m, left, right, step)
    if isinstance(left, Map) and isinstance(right, Map):
        update(m, left, right, node)
        return left
    return None


def _parts(whole: ast.expr, target: ast.expr) -> tuple[ast.expr | None, ast.expr | None]:
    """The expression that is the old container, and what is added to it."""
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, (ast.Add, ast.BitOr)):
        return (whole.left, whole.right) if _same(_copied(whole.left), target) else (None, None)
    if isinstance(whole, (ast.List, ast.Tuple, ast.Set)):
        old = [one for one in whole.elts if isinstance(one, ast.Starred) and _same(_copied(one.value), target)]
        others = [one for one in whole.elts if one not in old]
        if len(old) == 1 and others:
            return old[0].value, ast.copy_location(ast.List(others, ast.Load()), whole)
    if isinstance(whole, ast.Dict) and None in whole.keys:
        pairs = list(zip(whole.keys, whole.values, strict=True))
        known = [value for key, value in pairs if key is None and _same(_copied(value), target)]
        others_ = [(key, value) for key, value in pairs if value not in known]
        if len(known) == 1 and others_:
            made = ast.Dict([key for key, _ in others_], [value for _, value in others_])
            return known[0], ast.copy_location(made, whole)
    return None, None


def _copied(node: ast.expr) -> ast.expr:
    """`x` of `x or []` and of `list(x)`."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return node.values[0]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _COPIES
        and len(node.args) == 1
    ):
        return node.args[0]
    return node


def _same(one: Any, other: Any) -> bool:
    """Whether two expressions name the same place."""
    while isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute) and one.attr == other.attr:
        one, other = one.value, other.value
    return isinstance(one, ast.Name) and isinstance(other, ast.Name) and one.id == other.id


def bound(m: Interpreter, target: ast.Name | ast.Attribute, value: Value) -> None:
    """`if self.seen is None: self.seen = []`: what is made the first time lives as long as what it is put on."""
    marks = m.world.guards[-1] if m.loops and m.world.guards else set()
    if marks & {"once", "first"} and any(f"={name}" in marks for name in _names(target)):
        _lasting(m, target, value)


def _names(place: ast.expr) -> Iterator[str]:
    """The attributes and the name of `cls.instance.seen`, the last one first."""
    while isinstance(place, ast.Attribute):
        yield place.attr
        place = place.value
    if isinstance(place, ast.Name) and place.id not in ("self", "cls"):
        yield place.id


def _lasting(m: Interpreter, target: ast.expr, value: Value) -> Value:
    loops: tuple[int, ...] = tuple(one.uid for one in m.loops if one.function != m.frame.function)
    if isinstance(target, ast.Attribute):
        owner = best(m.evaluate(target.value))
        if not isinstance(owner, (Obj, Class)):
            return value
        loops = owner.loops if isinstance(owner, Obj) else ()
    elif isinstance(target, ast.Name) and target.id in m.frame.nonlocals:
        return value
    elif isinstance(target, ast.Name) and (target.id in m.frame.globals or m.frame.node is None):
        loops = ()
    _adopt(m, value, loops, 2)
    return value


def _adopt(m: Interpreter, value: Value, loops: tuple[int, ...], depth: int) -> None:
    for one in inside(value):
        plain = isinstance(one, (Seq, Map)) or (isinstance(one, Obj) and one.cls is not None and not one.family)
        if plain and one.loops == m.loop_ids:  # type: ignore[attr-defined]
            one.loops = loops  # type: ignore[attr-defined]
            for held in one.attrs.values() if isinstance(one, Obj) and depth else ():
                _adopt(m, held, loops, depth - 1)
