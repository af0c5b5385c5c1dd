"""One program: a file and what it calls, followed from its top level, then its functions that nobody called."""

from __future__ import annotations

import ast
import contextlib
from bisect import bisect_left
from dataclasses import replace
from typing import Any

from tenure.check.abstract_interpreter import Interpreter, OutOfSteps
from tenure.check.abstract_values import Class, Frame, Func, Module, Obj, State, Value, Wrapped
from tenure.check.fact import Fact
from tenure.check.facts import EagerInGraph, EagerInSession, Escape
from tenure.check.language import calls, expressions, statements
from tenure.check.language.calls import instantiate
from tenure.check.lifetimes import end_of_program
from tenure.check.lifetimes.escapes import escape
from tenure.check.models import (
    keras_fit,
    libraries,
    operations,
    tensorflow_calls,
    tensorflow_version,
    torch_calls,
    torch_functions,
    trainers,
    transforms,
)
from tenure.check.models.transforms import call_traced
from tenure.check.value_queries import best

STEPS_A_LINE = 60
STEPS = 30_000
IMPORTED_STEPS = 5_000  # for the functions and classes of another file
_PAST = ("end", "escape")  # what happened before a value is used
SAMPLE_STEPS = 1_200  # for making an object to look at a method with


class BoundInterpreter(Interpreter):
    """The interpreter with the language and the libraries. Nothing below imports this module."""

    evaluate = expressions.evaluate
    run = statements.run
    call = calls.call
    call_function = calls.call_function
    call_library = libraries.call
    call_library_object = libraries.call_framework_object
    call_module = libraries.call_module
    call_wrapped = transforms.call_wrapped
    call_autograd_function = torch_functions.apply
    call_backward = torch_calls.backward_call
    result = operations.result
    enter_library = libraries.enter
    object_attribute = libraries.object_attribute
    tensor_attribute = tensorflow_calls.tensor_attribute
    object_method = libraries.object_method
    tensor_method = libraries.tensor_method
    function_method = transforms.function_method
    note_temporary = transforms.of_temporary


def follow_module(module: Module) -> None:
    """Find the functions and classes of a module that the checked file imports. Raises what the interpreter raises."""
    m = BoundInterpreter(IMPORTED_STEPS)
    module_frame(m, module)
    m.run(module.tree.body)


def follow(module: Module, triggers: list[int], loader: Any) -> list[Fact]:
    """All that can be seen in a file."""
    lines = len(module.lines)
    m = BoundInterpreter(STEPS + STEPS_A_LINE * lines, loader)
    m.world.script = True
    m.main = module
    m.world.jax = "jax" in module.text
    module_frame(m, module)
    tensorflow_version.look(m, module)
    try:
        m.run(module.tree.body)
    except OutOfSteps:
        m.world.unfinished = True
    end_of_program.add_facts(m, list(module.names.values()))
    called, reported = frozenset(m.seen_functions), set(m.reported)
    facts = list(m.facts)
    facts += _uncalled(m, module, triggers, loader)
    m.reported = reported  # with callers known, more is seen of the same place
    facts += _entries(m, module, loader, called)
    return _first_eager(facts)


def _first_eager(facts: list[Fact]) -> list[Fact]:
    """Only the first of those that end a program because its operations ran immediately."""
    eager = [fact for fact in facts if isinstance(fact, (EagerInSession, EagerInGraph))]
    return [fact for fact in facts if fact not in eager[1:]]


def module_frame(m: Interpreter, module: Module) -> None:
    """Begin at a module's top level."""
    frame = Frame(module, "<module>", None, {})
    module.frame = frame
    m.frame = frame


def _entries(first: Interpreter, module: Module, loader: Any, called: frozenset[int]) -> list[Fact]:
    """Functions without a caller: each is probably a program of its own, started from somewhere else."""
    found: list[Fact] = []
    steps = STEPS + STEPS_A_LINE * len(module.lines)
    for value in list(module.names.values()):
        cls = best(value)
        if isinstance(cls, Class) and cls.module is module and trainers.drives(cls):
            steps_ = [cls.find(name) for name in ("training_step", "compute_loss")]
            if not any(isinstance(one, Func) and id(one.node) in called for one in steps_):
                found += _driven(first, module, loader, cls, steps)
    for function, owner, wrapped in _functions(module):
        node = function.node
        if id(node) in called or owner is not None or wrapped is not None or _is_read(module, node.name):
            continue
        if steps <= 0:
            continue
        m = _alone(first, module, loader, steps)
        m.world.script = True
        m.world.may_turn_off = True  # its caller may have made a graph the default
        try:
            _enter(m, function, None, None)
        except OutOfSteps:
            m.world.unfinished = True
        steps = m.steps
        found += _likely(m)
    return found


def _driven(first: Interpreter, module: Module, loader: Any, cls: Class, steps: int) -> list[Fact]:
    """A class whose methods a library calls, trained with unknown data."""
    m = _alone(first, module, loader, steps)
    m.world.script = True
    m.followed.add(m.frame.function)  # where the library's own calls are taken to be
    try:
        made = instantiate(m, cls, [], {}, cls.node)
        if isinstance(made, Obj):
            trainers.drive(m, made, cls.node)
    except OutOfSteps:
        m.world.unfinished = True
    return _likely(m)


def _examined(m: Interpreter) -> list[Fact]:
    end_of_program.add_facts(m, [])
    return _own(m)


def _likely(m: Interpreter) -> list[Fact]:
    end_of_program.add_facts(m, [])
    for fact in m.facts:
        fact.likely = True
    return _own(m)


def _is_read(module: Module, name: str) -> bool:
    """Whether functions or methods of a file read a name: what they name is not an entry."""
    return module.text.count(name) > 1 and name in module.read_in_functions


def _alone(first: Interpreter, module: Module, loader: Any, steps: int) -> Interpreter:
    m = BoundInterpreter(steps, loader)
    m.reported = first.reported
    m.main = module
    m.world.jax = first.world.jax
    for known in ("second_version", "may_turn_off", "graph_mode", "default_graph", "functions_eager"):
        setattr(m.world, known, getattr(first.world, known))
    m.world.optimizers, m.world.variables = list(first.world.optimizers), list(first.world.variables)
    if not m.world.graph_mode and tensorflow_version.turns_eager_off(module):
        m.world.second_version = False  # another function of the file may have run before
    m.grad = [first.grad[-1]]
    assert module.frame is not None
    m.frame = module.frame
    return m


def _uncalled(first: Interpreter, module: Module, triggers: list[int], loader: Any) -> list[Fact]:
    """Functions that the file itself never calls, each on its own, with arguments of which nothing is known."""
    found: list[Fact] = []
    for function, owner, wrapped in _functions(module):
        repeated = bool(first.world.graph_mode) and _counts(function.node)
        if id(function.node) in first.seen_functions or not (repeated or _triggered(function.node, triggers)):
            continue
        m = _alone(first, module, loader, 600 + STEPS_A_LINE * (function.node.end_lineno - function.node.lineno + 1))
        m.depth = 5
        with contextlib.suppress(OutOfSteps):
            _enter(m, function, owner, wrapped, repeated=repeated)
        first.seen_functions |= m.seen_functions
        found += _likely(m) if repeated else _examined(m)
    return found


def _own(m: Interpreter) -> list[Fact]:
    """The facts that do not need the end of the program: a function without a caller may run before that."""
    return [
        fact
        for fact in m.facts
        if isinstance(fact, Escape) or all(one.function in m.followed for role, one in fact.spots() if role in _PAST)
    ]


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


def _counts(node: Any) -> bool:
    """Whether a method counts its calls, in `self.steps += 1` or `if self.steps % 100 == 0`, and so is called again."""
    for one in ast.walk(node):
        place: ast.expr | None = None
        if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add) and isinstance(one.value, ast.Constant):
            place = one.target
        elif isinstance(one, ast.Compare) and isinstance(one.left, ast.BinOp) and isinstance(one.left.op, ast.Mod):
            place = one.left.left
        if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name):
            return True
    return False


def _enter(
    m: Interpreter, function: Func, owner: Class | None, wrapped: Wrapped | None, *, repeated: bool = False
) -> None:
    node = function.node
    me: Value | None = None
    if owner is not None:
        me = _sample(m, owner, node)
    bound = function.bind(me) if me is not None and not _static(node) else function
    if wrapped is not None:
        options = replace(wrapped.options, entry=True, unbound=bound.bound is not None)
        call_traced(m, Wrapped("trace", bound, wrapped.born, options), [], {}, node)
        return
    keras = owner is not None and owner.family == "keras.Model"
    if keras and node.name in ("train_step", "test_step", "predict_step") and isinstance(me, Obj):
        keras_fit.step(m, me, function, node)
        return
    if node.name == "__init__":
        return
    if repeated:
        again = ast.copy_location(ast.While(ast.Constant(value=True), [], []), node)
        statements.loop(m, again, lambda turn: m.call_function(bound, [], {}, node, entry=True), 2)  # type: ignore[arg-type]
        return
    made = m.call_function(bound, [], {}, node, entry=True)
    escape(m, [made])


def _static(node: Any) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)


def _sample(m: Interpreter, owner: Class, node: ast.AST) -> Value:
    left, m.steps = m.steps, SAMPLE_STEPS
    try:
        made = instantiate(m, owner, [], {}, node)
    except OutOfSteps:
        made = m.obj(owner.name, node, owner)
        assert owner.module.frame is not None
        m.frame, m.calls, m.loops, m.loop_ids = owner.module.frame, [], [], ()
        m.sites = []
    m.steps = left
    if isinstance(made, Obj):
        made.state.sample = True
        made.state.escaped = True
        for value in made.attrs.values():
            state = getattr(best(value), "state", None)
            if isinstance(state, State):
                state.escaped = True
    return made
