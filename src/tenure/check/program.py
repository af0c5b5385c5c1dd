"""One program: a file and what it calls, followed from its top level, then its functions that nobody called."""

from __future__ import annotations

import ast
import contextlib
from bisect import bisect_left
from typing import Any

from tenure.check import judging
from tenure.check.calls import call_function, instantiate
from tenure.check.machine import Fact, Frame, Machine, OutOfSteps
from tenure.check.modules import Module
from tenure.check.statements import run
from tenure.check.tensorflow_model import follow_step
from tenure.check.transforms import call_traced
from tenure.check.values import Class, Func, Obj, Value, Wrapped, best

STEPS_A_LINE = 60
STEPS = 30_000
SAMPLE_STEPS = 1_200  # for making an object to look at a method with


def follow(module: Module, triggers: list[int], loader: Any) -> list[Fact]:
    """All that can be seen in a file."""
    lines = len(module.lines)
    m = Machine(STEPS + STEPS_A_LINE * lines, loader)
    m.world["script"] = True
    m.main = module
    m.world["jax"] = "jax" in module.text
    module_frame(m, module)
    with contextlib.suppress(OutOfSteps):
        run(m, module.tree.body)
    module.followed = True
    judging.judge(m, list(module.names.values()))
    facts = list(m.facts)
    facts += _uncalled(m, module, triggers, loader)
    return facts


def module_frame(m: Machine, module: Module) -> None:
    """Begin at a module's top level."""
    frame = Frame(module, "<module>", None, {})
    module.frame = frame
    m.frame = frame


def _uncalled(first: Machine, module: Module, triggers: list[int], loader: Any) -> list[Fact]:
    """Functions that the file itself never calls, each on its own, with arguments of which nothing is known."""
    told: list[Fact] = []
    for function, owner, wrapped in _functions(module):
        if id(function.node) in first.seen_functions or not _triggered(function.node, triggers):
            continue
        m = Machine(600 + STEPS_A_LINE * (function.node.end_lineno - function.node.lineno + 1), loader)
        m.depth = 5
        m.told = first.told
        m.main = module
        m.world["jax"] = first.world.get("jax")
        m.world["graph_mode"] = False
        m.frame = module.frame
        with contextlib.suppress(OutOfSteps):
            _enter(m, function, owner, wrapped)
        first.seen_functions |= m.seen_functions
        judging.judge(m, [])
        told += m.facts
    return told


def _triggered(node: Any, triggers: list[int]) -> bool:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    at = bisect_left(triggers, first)
    return at < len(triggers) and triggers[at] <= node.end_lineno


def _functions(module: Module) -> list[tuple[Func, Class | None, Wrapped | None]]:
    found: list[tuple[Func, Class | None, Wrapped | None]] = []

    def add(value: Value, owner: Class | None) -> None:
        wrapped = value if isinstance(value, Wrapped) and value.kind == "trace" else None
        while isinstance(value, Wrapped):
            value = value.inner
        if isinstance(value, Func) and isinstance(value.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append((value, owner, wrapped))

    for value in list(module.names.values()):
        one = best(value)
        if isinstance(one, Class) and one.module is module:
            for inner in one.attrs.values():
                add(best(inner), one)
        elif not isinstance(one, Func) or one.module is module:
            add(one, None)
    return found


def _enter(m: Machine, function: Func, owner: Class | None, wrapped: Wrapped | None) -> None:
    node = function.node
    me: Value | None = None
    if owner is not None:
        me = _sample(m, owner, node)
    bound = function.bind(me) if me is not None and not _static(node) else function
    if wrapped is not None:
        options = {**wrapped.options, "entry": True, "unbound": bound.bound is not None}
        call_traced(m, Wrapped("trace", bound, wrapped.born, options), [], {}, node)
        return
    keras = owner is not None and owner.family == "keras.Model"
    if keras and node.name in ("train_step", "test_step", "predict_step") and isinstance(me, Obj):
        follow_step(m, me, function, node)
        return
    if node.name == "__init__":
        return
    made = call_function(m, bound, [], {}, node, entry=True)
    from tenure.check.effects import escape

    escape(m, [made])


def _static(node: Any) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)


def _sample(m: Machine, owner: Class, node: ast.AST) -> Value:
    left, m.steps = m.steps, SAMPLE_STEPS
    try:
        made = instantiate(m, owner, [], {}, node)
    except OutOfSteps:
        made = m.obj(owner.name, node, owner)
        m.frame, m.calls, m.loops, m.loop_ids = owner.module.frame, [], [], ()
        m.sites = []
    m.steps = left
    if isinstance(made, Obj):
        made.state["sample"] = True
        made.state["escaped"] = True
        for value in made.attrs.values():
            state = getattr(best(value), "state", None)
            if isinstance(state, dict):
                state["escaped"] = True
    return made
