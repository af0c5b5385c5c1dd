"""Statements: what each does to names and the heap, and where the program goes on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tenure.check import syntax
from tenure.check.abstract_interpreter import BROKE, CONTINUED, ON, RAISED, RETURNED, Interpreter, OutOfSteps
from tenure.check.abstract_values import (
    NONE,
    Class,
    Const,
    Either,
    Frame,
    Func,
    Map,
    Num,
    Obj,
    Ref,
    Seq,
    Tensor,
    Trace,
    Value,
)
from tenure.check.kept import SameBuffer
from tenure.check.language import contexts, functions, imports, iteration, objects, operators, places, rebuilt
from tenure.check.language.assignment import bind
from tenure.check.language.expressions import truth
from tenure.check.language.functions import make_function, syntax_of
from tenure.check.lifetimes import container_reads, escapes, retention, retracing, traces, uses
from tenure.check.syntax import Loop
from tenure.check.value_queries import best, join
from tenure.check.world import Attempt

TURNS = 2  # what a loop carries from turn to turn shows in the second


def run(m: Interpreter, body: Sequence[ast.stmt]) -> int:
    """Follow statements until one leaves the block."""
    for statement in body:
        m.steps -= 1
        if m.steps < 0:
            raise OutOfSteps
        m.clock += 1
        step = _STEPS.get(type(statement))
        how = step(m, statement) if step is not None else ON
        if how:
            return how
    return ON


def _expression(m: Interpreter, node: ast.Expr) -> int:
    value = m.evaluate(node.value)
    if isinstance(node.value, (ast.Call, ast.Await)):
        escapes.discarded(m, value, node.value)
    if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        ref = node.value.func
        if ref.attr == "exit" and isinstance(ref.value, ast.Name) and ref.value.id == "sys":
            return RAISED
    return ON


def _assign(m: Interpreter, node: ast.Assign) -> int:
    value = rebuilt.assigned(m, node) or m.evaluate(node.value)
    if (
        m.loops
        and m.conditions
        and isinstance(node.value, (ast.Name, ast.Attribute))
        and (isinstance(node.targets[0], ast.Name) or retention.best_so_far(m, node.targets[0]))
    ):
        retention.model_aliased(m, value, node)
    if m.loops:
        retracing.grows(m, node, value)
        if isinstance(value, (Const, Num)) and syntax.recurs(node) and retracing.carries(m, node.targets[0]):
            value = Num(varies=True)
    objects.leaf_replaced(m, node, value)
    for target in node.targets:
        bind(m, target, value)
    return ON


def _annotated(m: Interpreter, node: ast.AnnAssign) -> int:
    if node.value is not None:
        bind(m, node.target, m.evaluate(node.value))
    return ON


def _augmented(m: Interpreter, node: ast.AugAssign) -> int:
    target = node.target
    load: ast.expr = (
        ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target
    )
    left, right = places.place(m, load), m.evaluate(node.value)
    value = operators.augmented(m, left, right, node)
    value = operators.counted(m, left, value)
    before = len(m.kept)
    bind(m, target, value)
    if isinstance(target, ast.Subscript):  # what was there is there again: no buffer is stored a second time
        m.kept[before:] = [held for held in m.kept[before:] if not isinstance(held, SameBuffer)]
    return ON


def _if(m: Interpreter, node: ast.If) -> int:
    condition = places.condition(m, node.test)
    uses.read_as_bool(m, condition, node.test)
    known = truth(condition)
    if known is not None:
        m.ifs += 1
        m.world.guards.append(syntax.asked_first(node.test) if m.loops else set())
        try:
            return run(m, node.body if known else node.orelse)
        finally:
            m.world.guards.pop()
            m.ifs -= 1
    refined = _refinement(m, node.test)
    gradient = _gradient_test(m, node.test)
    _limit(m, node.test)

    def then() -> int:
        if refined:
            m.frame.names[refined[0]] = refined[1]
        return run(m, node.body)

    def otherwise() -> int:
        if refined:
            m.frame.names[refined[0]] = refined[2]
        if gradient:
            m.set_state(gradient[0].state, "grad_value", gradient[1])
        return run(m, node.orelse)

    marks = syntax.guards(node.test)
    m.world.guards.append(marks)
    try:
        return m.branches([then, otherwise], often=bool(m.loops) and syntax.periodic(node))
    finally:
        m.world.guards.pop()


def _limit(m: Interpreter, test: ast.expr) -> None:
    """`if len(first) < 12:` is how people keep a list short: it is taken for one that does not grow for ever."""
    for part in test.values if isinstance(test, ast.BoolOp) else [test]:
        if not (isinstance(part, ast.Compare) and isinstance(part.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))):
            continue
        call, other = part.left, part.comparators[0]
        if isinstance(call, ast.Constant):
            call, other = other, call
        if isinstance(other, ast.Constant) and other.value in (0, 1):
            continue  # whether there is anything at all
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "len" and call.args:
            container = best(m.evaluate(call.args[0]))
            if isinstance(container, (Seq, Map)):
                m.set_state(container.state, "bounded", True)


def _refinement(m: Interpreter, test: ast.expr) -> tuple[str, Value, Value] | None:
    """`x is None` and `x is not None` show what x is in each branch."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name)):
        return None
    right = test.comparators[0]
    if not (isinstance(right, ast.Constant) and right.value is None):
        return None
    value = m.frame.names.get(test.left.id)
    if not isinstance(value, Either):
        return None
    rest = [o for o in value.options if not (isinstance(o, Const) and o.value is None)]
    if not rest:
        return None
    other: Value = rest[0] if len(rest) == 1 else Either(tuple(rest))
    return (test.left.id, NONE, other) if isinstance(test.ops[0], (ast.Is, ast.Eq)) else (test.left.id, other, NONE)


def _gradient_test(m: Interpreter, test: ast.expr) -> tuple[Tensor, Value] | None:
    """`if p.grad is None`: where not, it is there."""
    if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Attribute) and test.left.attr == "grad"):
        return None
    owner = best(m.evaluate(test.left.value))
    value = owner.state.grad_value if isinstance(owner, Tensor) else None
    if isinstance(owner, Tensor) and isinstance(value, Either) and isinstance(test.ops[0], ast.Is):
        rest = [o for o in value.options if not (isinstance(o, Const) and o.value is None)]
        return (owner, rest[0]) if rest else None
    return None


def _for(m: Interpreter, node: ast.For | ast.AsyncFor) -> int:
    iterable = iteration.as_sequence(m, places.place(m, node.iter), node.iter)
    container_reads.walked(m, iterable)
    if isinstance(iterable, Ref):
        iterable = m.unknown(node.iter)
    turns = iteration.turns(m, iterable, node)

    def prepare(turn: int) -> None:
        bind(m, node.target, iteration.next_element(m, iterable, turn, node.target, node.iter))

    how = loop(m, node, prepare, turns, iteration.loop_kind(m, iterable), iteration.count(iterable))
    return how if how == RETURNED else (run(m, node.orelse) if node.orelse else ON)


def loop(
    m: Interpreter,
    node: Any,
    prepare: Callable[[int], None],
    turns: int,
    kind: str = "python",
    count: int | None = None,
) -> int:
    """Follow a loop's body as often as it takes to see what it carries."""
    m.uid += 1
    one = Loop(m.uid, node, 0, kind, m.frame.function, count)
    m.loops.append(one)
    m.loop_ids = (*m.loop_ids, one.uid)
    trace = (
        Trace("control flow", "for" if isinstance(node, ast.For) else "while", "tf", m.spot(node))
        if kind == "graph"
        else None
    )
    how = ON
    try:
        for turn in range(turns):
            one.turn = turn
            m.clock += 1
            prepare(turn)
            m.clock += 1
            if trace is not None:
                with traces.tracing(m, trace):
                    how = run(m, node.body)
            else:
                how = run(m, node.body)
            if how in (RETURNED, RAISED, BROKE) and turns != 1:
                break
        else:
            retention.after_loop(m, one)
    finally:
        m.loops.pop()
        m.loop_ids = m.loop_ids[:-1]
    return RETURNED if how == RETURNED and turns > 0 else ON


def _while(m: Interpreter, node: ast.While) -> int:
    first = m.evaluate(node.test)
    uses.read_as_bool(m, first, node.test)
    known = truth(first)
    if known is False:
        return run(m, node.orelse)

    def prepare(turn: int) -> None:
        if turn:
            uses.read_as_bool(m, m.evaluate(node.test), node.test)

    endless = known is True
    condition = first if not endless else NONE
    how = loop(m, node, prepare, TURNS, iteration.while_kind(m, condition))
    return how if how == RETURNED else ON


def _with(m: Interpreter, node: ast.With | ast.AsyncWith) -> int:
    return _block(m, node, 0)


def _block(m: Interpreter, node: ast.With | ast.AsyncWith, at: int) -> int:
    """Enter a context and those after it, and run the body."""
    if at == len(node.items):
        return run(m, node.body)
    item = node.items[at]
    value = m.evaluate(item.context_expr)
    manager = best(value)
    if isinstance(manager, Obj) and manager.kind == "manager" and manager.state.function is not None:
        return _managed(m, node, at, manager)
    entered, leave = contexts.enter(m, value, item.context_expr)
    if item.optional_vars is not None:
        bind(m, item.optional_vars, entered)
    try:
        return _block(m, node, at + 1)
    finally:
        if leave is not None:
            leave()


def _managed(m: Interpreter, node: ast.With | ast.AsyncWith, at: int, manager: Obj) -> int:
    """A function with `@contextmanager`: its first `yield` runs the block."""
    item, frame, function = node.items[at], m.frame, manager.state.function
    how: list[int] = []

    def body(value: Value) -> None:
        if how:
            return
        how.append(ON)
        inner, m.frame = m.frame, frame
        try:
            if item.optional_vars is not None:
                bind(m, item.optional_vars, value)
            how[0] = _block(m, node, at + 1)
        finally:
            m.frame = inner

    assert function is not None
    m.world.blocks.append((syntax_of(function), body))
    try:
        m.call(function, list(manager.state.args), dict(manager.attrs), item.context_expr)
    finally:
        m.world.blocks.pop()
    if not how:  # it was not followed to its `yield`
        body(m.unknown(item.context_expr))
    return how[0]


def _try(m: Interpreter, node: ast.Try) -> int:
    outcome: list[int] = []
    m.world.attempts.append(Attempt(len(m.calls)))
    # A statement or two with a handler of their own are meant to fail.
    expected = len(node.body) <= 2 and any(_for_errors(handler) for handler in node.handlers)
    m.muted += expected
    try:
        how = run(m, node.body)
    finally:
        m.muted -= expected
    attempt = m.world.attempts.pop()
    bodies: list[Callable[[], int]] = []

    def through(result: int = how) -> int:
        return run(m, node.orelse) if result == ON and node.orelse else result

    bodies.append(through)
    for handler in node.handlers:

        def handle(handler: ast.ExceptHandler = handler) -> int:
            error = m.obj("exception", handler)
            error.state.keeps_tensors = attempt.tensors
            if handler.name:
                m.frame.names[handler.name] = error
            m.world.handlers.append((handler, attempt))
            try:
                result = run(m, handler.body)
                if handler.name:
                    m.frame.names.pop(handler.name, None)
                return result
            finally:
                m.world.handlers.pop()

        bodies.append(handle)
    outcome.append(m.branches(bodies) if len(bodies) > 1 else through())
    ended = run(m, node.finalbody)
    return ended or outcome[0]


def _for_errors(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for what frameworks raise when a tensor has ended."""
    names = (
        {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(handler.type)}
        if handler.type is not None
        else {"Exception"}
    )
    return bool(names & {"RuntimeError", "Exception", "TensorReleased", "ValueError", "TypeError", "AttributeError"})


def _return(m: Interpreter, node: ast.Return) -> int:
    value = m.evaluate(node.value) if node.value is not None else NONE
    escapes.returned(m, value, node)
    have = m.frame.returned
    m.frame.returned = value if have is None else join(have, value)
    return RETURNED


def _raise(m: Interpreter, node: ast.Raise) -> int:
    if node.exc is not None:
        m.evaluate(node.exc)
    return RAISED


def _function(m: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    made = make_function(m, node)
    value: Value = made
    for decorator in reversed(node.decorator_list):
        value = functions.decorated(m, m.evaluate(decorator), value, decorator)
    setter = any(isinstance(one, ast.Attribute) and one.attr == "setter" for one in node.decorator_list)
    m.assign(f"{node.name}.setter" if setter else node.name, value, m.spot(node))
    return ON


def _class(m: Interpreter, node: ast.ClassDef) -> int:
    bases = [m.evaluate(base) for base in node.bases]
    made = Class(node, [best(base) for base in bases], m.frame.module)
    frame = m.frame
    inner = Frame(frame.module, node.name, frame.outer if frame.node is None else frame, {})
    inner.node = frame.node
    m.frame = inner
    try:
        run(m, node.body)
    finally:
        m.frame = frame
    made.attrs.update(inner.names)
    for value in inner.names.values():
        _own_methods(made, value)
    m.assign(node.name, made, m.spot(node))
    return ON


def _own_methods(cls: Class, value: Value) -> None:
    while not isinstance(value, Func):
        inner = getattr(value, "inner", None)
        if inner is None:
            return
        value = inner
    value.cls = value.cls or cls


def _delete(m: Interpreter, node: ast.Delete) -> int:
    for target in node.targets:
        escapes.deleted(m, target)
        if isinstance(target, ast.Name):
            m.frame.names.pop(target.id, None)
        elif isinstance(target, ast.Attribute):
            owner = best(m.evaluate(target.value))
            if isinstance(owner, Obj):
                m.put(owner.attrs, target.attr, NONE)
        elif isinstance(target, ast.Subscript):
            owner = best(m.evaluate(target.value))
            retention.drained(m, owner)
            whole = isinstance(target.slice, ast.Slice) and target.slice.lower is None and target.slice.upper is None
            if isinstance(owner, Seq) and whole and not m.conditions:
                owner.items.clear()
                owner.rest = None
    return ON


def _match(m: Interpreter, node: ast.Match) -> int:
    subject = m.evaluate(node.subject)

    def way(case: ast.match_case) -> Callable[[], int]:
        def go() -> int:
            for part in ast.walk(case.pattern):
                if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name:
                    m.frame.names[part.name] = m.unknown(part)
            _captured(m, case.pattern, subject)
            return run(m, case.body)

        return go

    return m.branches([*(way(case) for case in node.cases), lambda: ON])


def _captured(m: Interpreter, pattern: ast.pattern, value: Value) -> None:
    """Bind the names of a pattern that takes all of a value, or the items of a sequence."""
    whole = best(value)
    if isinstance(pattern, ast.MatchAs) and pattern.name and pattern.pattern is None:
        m.frame.names[pattern.name] = value
    elif isinstance(pattern, ast.MatchSequence) and isinstance(whole, Seq) and whole.rest is None:
        for part, item in zip(pattern.patterns, whole.items, strict=False):
            _captured(m, part, item)


def _assert(m: Interpreter, node: ast.Assert) -> int:
    uses.read_as_bool(m, m.evaluate(node.test), node.test)
    return ON


_STEPS: dict[type, Callable[[Interpreter, Any], int]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Delete: _delete,
    ast.Import: imports.imported,
    ast.ImportFrom: imports.imported_from,
    ast.Global: imports.made_global,
    ast.Nonlocal: imports.made_nonlocal,
    ast.Match: _match,
    ast.Assert: _assert,
    ast.Break: lambda m, node: BROKE,
    ast.Continue: lambda m, node: CONTINUED,
}
