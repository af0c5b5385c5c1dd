"""`tf.TensorArray`: writes that are dropped, and reads of what an earlier read has cleared."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Num, Obj, Spot, Value
from tenure.check.models.tensorflow_graphs import graph_mode
from tenure.check.syntax import Loop


@dataclass(slots=True)
class _Read:
    """A read of one element, in eager mode."""

    spot: Spot
    index: Value
    turn: Any
    place: tuple[int, int] | None  # a loop, and how far from its variable
    sure: bool
    run: tuple[ast.AST, int] | None  # the loop over a range whose variable is the index, and which run of it


def make(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Obj:
    """`tf.TensorArray(…)`."""
    made = m.obj("tensor array", node)
    keeps = kwargs.get("clear_after_read", args[3] if len(args) > 3 else NONE)
    made.state.reads = [] if isinstance(keeps, Const) and keeps.value in (True, None) else None
    return made


def method(m: Interpreter, owner: Obj, name: str, args: list[Value], node: ast.Call) -> Value:
    """A method of an array."""
    if name in ("write", "unstack", "scatter", "split"):
        made = m.obj("tensor array", node)
        made.state.write_of, made.loops = owner, owner.loops
        if owner.state.reads is not None:
            made.state.reads = []
            owner.state.reads.clear()  # what is written can be read
        return made
    if name in ("stack", "concat", "read", "gather"):
        if owner.state.reads is not None and m.world.script and not m.traces and not graph_mode(m):
            _read(m, owner, name, args, node)
        return m.tensor("tf", node)
    return m.unknown(node)


def _read(m: Interpreter, owner: Obj, name: str, args: list[Value], node: ast.Call) -> None:
    reads: list[_Read] = owner.state.reads or []
    owner.state.reads = reads
    if name != "read":
        if name != "gather" and not m.conditions and (first := next((one for one in reads if one.sure), None)):
            fact = facts.ArrayReadTwice(use=m.spot(node), end=first.spot, birth=owner.born)
            fact.likely = True  # it gives zeros for the element, where the shape is known
            m.add_fact(fact)
        return
    index = args[0] if args else NONE
    now = _Read(m.spot(node), index, m.turn(), _place(m, owner, node), not m.conditions, _run(m, owner, node))
    for one in reads:
        if _same(one, now):
            fact = facts.ArrayReadTwice(use=now.spot, end=one.spot, birth=owner.born)
            fact.likely = not now.sure or one.run != now.run
            m.add_fact(fact)
            return
    reads.append(now)


def _same(one: _Read, other: _Read) -> bool:
    """Whether both read one element: the same index, or indices of a loop that meet some iterations apart."""
    if not (one.sure or other.sure):
        return False
    if isinstance(one.index, Const) and isinstance(other.index, Const):
        return bool(one.index.value == other.index.value) and one.sure and other.sure
    if one.index is other.index and one.turn == other.turn:
        return one.sure and other.sure
    if one.run is not None and other.run is not None and one.run[0] is other.run[0] and one.run[1] != other.run[1]:
        return one.sure and other.sure  # the loop goes over the same range a second time
    apart = one.place is not None and other.place is not None and one.place[0] == other.place[0]
    return apart and one.place != other.place


def _run(m: Interpreter, owner: Obj, node: ast.Call) -> tuple[ast.AST, int] | None:
    """The loop that reads an element in each iteration, if its range is the same whenever it runs."""
    index = node.args[0] if node.args else None
    for loop in reversed(m.loops) if isinstance(index, ast.Name) else ():
        part: Any = next(iter(getattr(loop.node, "generators", ())), loop.node)
        target, over = getattr(part, "target", None), getattr(part, "iter", None)
        if not (isinstance(target, ast.Name) and target.id == index.id):  # type: ignore[union-attr]
            continue
        ranged = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range"
        if not ranged or loop.uid in owner.loops or loop.function not in ("", m.frame.function):
            return None
        bounds = [m.evaluate(one) for one in over.args]  # type: ignore[union-attr]
        same = all(isinstance(one, Const) or (isinstance(one, Num) and not one.varies) for one in bounds)
        return (loop.node, loop.uid) if same else None
    return None


def _place(m: Interpreter, owner: Obj, node: ast.Call) -> tuple[int, int] | None:
    """The loop over a range whose variable is the index, and what is added to it."""
    index = node.args[0] if node.args else None
    offset = 0
    if isinstance(index, ast.BinOp) and isinstance(index.right, ast.Constant) and isinstance(index.right.value, int):
        offset = index.right.value if isinstance(index.op, ast.Add) else -index.right.value
        index = index.left if isinstance(index.op, (ast.Add, ast.Sub)) else None
    loop = next((one for one in reversed(m.loops) if isinstance(index, ast.Name) and _counts(one, index.id)), None)
    return (loop.uid, offset) if loop is not None and loop.uid not in owner.loops else None


def _counts(loop: Loop, name: str) -> bool:
    """Whether a loop is `for name in range(…)`, by steps of one."""
    node = loop.node
    if not (isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == name):
        return False
    called = node.iter.func if isinstance(node.iter, ast.Call) else None
    return (
        isinstance(node.iter, ast.Call)
        and getattr(called, "attr", getattr(called, "id", "")) == "range"
        and len(node.iter.args) < 3
    )
