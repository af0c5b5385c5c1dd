"""Statements: what each does to names and the heap, and where the program goes on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tenure.check import contexts, effects, imports, keeping, retracing
from tenure.check.expressions import evaluate, set_item, truth
from tenure.check.machine import (
    BROKE,
    CONTINUED,
    ON,
    RAISED,
    RETURNED,
    Frame,
    Loop,
    Machine,
    OutOfSteps,
    Trace,
)  # fmt: skip
from tenure.check.values import (
    NONE,
    Class,
    Const,
    Either,
    Func,
    Map,
    Num,
    Obj,
    Ref,
    Seq,
    Tensor,
    Value,
    best,
    join,
    options,
    tensors,
)  # fmt: skip

TURNS = 2  # what a loop carries from turn to turn shows in the second


def run(m: Machine, body: Sequence[ast.stmt]) -> int:
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


def _expression(m: Machine, node: ast.Expr) -> int:
    value = evaluate(m, node.value)
    if isinstance(node.value, (ast.Call, ast.Await)):
        effects.discarded(m, value, node.value)
    if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        ref = node.value.func
        if ref.attr == "exit" and isinstance(ref.value, ast.Name) and ref.value.id == "sys":
            return RAISED
    return ON


def _assign(m: Machine, node: ast.Assign) -> int:
    value = evaluate(m, node.value)
    if (
        m.loops
        and m.conditions
        and isinstance(node.value, (ast.Name, ast.Attribute))
        and isinstance(node.targets[0], ast.Name)
    ):
        keeping.model_aliased(m, value, node)
    if m.loops:
        retracing.grows(m, node, value)
    for target in node.targets:
        bind(m, target, value)
    return ON


def _annotated(m: Machine, node: ast.AnnAssign) -> int:
    if node.value is not None:
        bind(m, node.target, evaluate(m, node.value))
    return ON


def bind(m: Machine, target: ast.expr, value: Value) -> None:
    """Bind a target to a value."""
    if isinstance(target, ast.Name):
        old = m.frame.names.get(target.id)
        if m.loops and isinstance(old, (Seq, Map)) and old is not value:
            effects.drained(m, old)
        if isinstance(old, Tensor) and old.leaf and m.world.get("optimizers"):
            effects.leaf_replaced(m, old, value, target)
        keeping.alias_kept(m, value, m.spot(target))
        if isinstance(value, Obj) and value.kind == "exception":
            keeping.exception_bound(m, value, target)
        m.assign(target.id, value, m.spot(target))
    elif isinstance(target, (ast.Tuple, ast.List)):
        unpack(m, target, value)
    elif isinstance(target, ast.Starred):
        bind(m, target.value, m.seq("list", [value], target))
    elif isinstance(target, ast.Attribute):
        owner = evaluate(m, target.value)
        set_attribute(m, owner, target.attr, value, target)
    elif isinstance(target, ast.Subscript):
        owner = evaluate(m, target.value)
        set_item(m, owner, evaluate(m, target.slice), value, target)


def unpack(m: Machine, target: ast.Tuple | ast.List, value: Value) -> None:
    """`a, b = value`."""
    value = best(value)
    stars = [isinstance(one, ast.Starred) for one in target.elts]
    if isinstance(value, Seq) and value.rest is None and len(value.items) == len(target.elts) and not any(stars):
        for one, item in zip(target.elts, value.items, strict=True):
            bind(m, one, item)
        return
    for one in target.elts:
        bind(m, one, effects.element(m, value, one))


def set_attribute(m: Machine, owner: Value, name: str, value: Value, node: ast.Attribute) -> None:
    """`owner.name = value`."""
    for one in options(owner):
        if isinstance(one, Obj):
            effects.attribute_set(m, one, name, value, node)
            m.note_write(one.attrs, name, value, m.spot(node), one)
            m.put(one.attrs, name, value)
        elif isinstance(one, Class):
            m.note_write(one.attrs, name, value, m.spot(node), one)
            m.put(one.attrs, name, value)
        elif isinstance(one, Tensor):
            effects.tensor_attribute_set(m, one, name, value, node)
        elif isinstance(one, Func) and isinstance(one.bound, Obj):
            m.put(one.bound.attrs, name, value)


def _augmented(m: Machine, node: ast.AugAssign) -> int:
    target = node.target
    load: ast.expr
    load = ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target
    left, right = evaluate(m, load), evaluate(m, node.value)
    value = effects.augmented(m, left, right, node)
    # A counter differs from turn to turn.
    if m.loops and isinstance(best(left), (Const, Num)) and isinstance(value, (Const, Num)):
        text = isinstance(value, Const) and isinstance(value.value, str)
        value = Num(varies=True) if not text or m.loops[-1].turn else value
    bind(m, target, value)
    return ON


def _if(m: Machine, node: ast.If) -> int:
    condition = evaluate(m, node.test)
    effects.read_as_bool(m, condition, node.test)
    known = truth(condition)
    if known is not None:
        m.ifs += 1
        try:
            return run(m, node.body if known else node.orelse)
        finally:
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
            m.put(gradient[0].state, "grad value", gradient[1])
        return run(m, node.orelse)

    marks = effects.guards(m, node.test)
    m.world.setdefault("guards", []).append(marks)
    try:
        return m.branches([then, otherwise])
    finally:
        m.world["guards"].pop()


def _limit(m: Machine, test: ast.expr) -> None:
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
            container = best(evaluate(m, call.args[0]))
            if isinstance(container, (Seq, Map)):
                m.put(container.state, "bounded", True)


def _refinement(m: Machine, test: ast.expr) -> tuple[str, Value, Value] | None:
    """`x is None` and `x is not None` tell what x is in each branch."""
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


def _gradient_test(m: Machine, test: ast.expr) -> tuple[Tensor, Value] | None:
    """`if p.grad is None`: where not, it is there."""
    if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Attribute) and test.left.attr == "grad"):
        return None
    owner = best(evaluate(m, test.left.value))
    value = owner.state.get("grad value") if isinstance(owner, Tensor) else None
    if isinstance(owner, Tensor) and isinstance(value, Either) and isinstance(test.ops[0], ast.Is):
        rest = [o for o in value.options if not (isinstance(o, Const) and o.value is None)]
        return (owner, rest[0]) if rest else None
    return None


def _for(m: Machine, node: ast.For | ast.AsyncFor) -> int:
    iterable = evaluate(m, node.iter)
    if isinstance(iterable, Ref):
        iterable = m.unknown(node.iter)
    turns = effects.turns(m, iterable, node)

    def prepare(turn: int) -> None:
        bind(m, node.target, effects.next_element(m, iterable, turn, node.target, node.iter))

    how = loop(m, node, prepare, turns, effects.loop_kind(m, iterable))
    return how if how == RETURNED else (run(m, node.orelse) if node.orelse else ON)


def loop(m: Machine, node: Any, prepare: Callable[[int], None], turns: int, kind: str = "python") -> int:
    """Follow a loop's body as often as it takes to see what it carries."""
    m.uid += 1
    one = Loop(m.uid, node, 0, kind, m.frame.function)
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
                with contexts.tracing(m, trace):
                    how = run(m, node.body)
            else:
                how = run(m, node.body)
            if how in (RETURNED, RAISED, BROKE) and turns != 1:
                break
        else:
            effects.after_loop(m, one)
    finally:
        m.loops.pop()
        m.loop_ids = m.loop_ids[:-1]
    return RETURNED if how == RETURNED and turns > 0 else ON


def _while(m: Machine, node: ast.While) -> int:
    first = evaluate(m, node.test)
    effects.read_as_bool(m, first, node.test)
    known = truth(first)
    if known is False:
        return run(m, node.orelse)

    def prepare(turn: int) -> None:
        if turn:
            evaluate(m, node.test)

    endless = known is True
    condition = first if not endless else NONE
    how = loop(m, node, prepare, TURNS, effects.while_kind(m, condition))
    return how if how == RETURNED else ON


def _with(m: Machine, node: ast.With | ast.AsyncWith) -> int:
    exits: list[Callable[[], None]] = []
    for item in node.items:
        value = evaluate(m, item.context_expr)
        entered, leave = contexts.enter(m, value, item.context_expr)
        if leave is not None:
            exits.append(leave)
        if item.optional_vars is not None:
            bind(m, item.optional_vars, entered)
    try:
        return run(m, node.body)
    finally:
        for leave in reversed(exits):
            leave()


def _try(m: Machine, node: ast.Try) -> int:
    outcome: list[int] = []
    before = len(m.world.setdefault("tensors", []))
    m.world.setdefault("tries", []).append({"tensors": False, "node": node, "depth": len(m.calls)})
    # A statement or two with a handler of their own are meant to fail.
    expected = len(node.body) <= 2 and any(_for_errors(handler) for handler in node.handlers)
    m.muted += expected
    try:
        how = run(m, node.body)
    finally:
        m.muted -= expected
    record = m.world["tries"].pop()
    del m.world["tensors"][before:]
    bodies: list[Callable[[], int]] = []

    def through(result: int = how) -> int:
        return run(m, node.orelse) if result == ON and node.orelse else result

    bodies.append(through)
    for handler in node.handlers:

        def handle(handler: ast.ExceptHandler = handler) -> int:
            error = m.obj("exception", handler)
            error.state["tensors"] = record["tensors"]
            if handler.name:
                m.frame.names[handler.name] = error
            m.world.setdefault("handlers", []).append((node, handler, record))
            try:
                result = run(m, handler.body)
                if handler.name:
                    m.frame.names.pop(handler.name, None)
                return result
            finally:
                m.world["handlers"].pop()

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


def _return(m: Machine, node: ast.Return) -> int:
    value = evaluate(m, node.value) if node.value is not None else NONE
    effects.returned(m, value, node)
    have = m.frame.returned
    m.frame.returned = value if have is None else join(have, value)
    return RETURNED


def _raise(m: Machine, node: ast.Raise) -> int:
    if node.exc is not None:
        evaluate(m, node.exc)
    return RAISED


def _function(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    made = make_function(m, node)
    value: Value = made
    for decorator in reversed(node.decorator_list):
        value = effects.decorated(m, evaluate(m, decorator), value, decorator)
    m.assign(node.name, value, m.spot(node))
    return ON


def make_function(m: Machine, node: Any) -> Func:
    """The value of a `def` or `lambda`."""
    outer: Frame | None = m.frame if m.frame.node is not None else None
    made: Func = m.own(Func(node, outer, m.frame.module, m.spot(node)))
    args = node.args
    names = [a.arg for a in (*args.posonlyargs, *args.args)]
    for name, default in zip(reversed(names), reversed(args.defaults), strict=False):
        made.defaults[name] = evaluate(m, default)
    for arg, wanted in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if wanted is not None:
            made.defaults[arg.arg] = evaluate(m, wanted)
    return made


def _class(m: Machine, node: ast.ClassDef) -> int:
    bases = [evaluate(m, base) for base in node.bases]
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


def _delete(m: Machine, node: ast.Delete) -> int:
    for target in node.targets:
        effects.deleted(m, target)
        if isinstance(target, ast.Name):
            m.frame.names.pop(target.id, None)
        elif isinstance(target, ast.Attribute):
            owner = best(evaluate(m, target.value))
            if isinstance(owner, Obj):
                m.put(owner.attrs, target.attr, NONE)
        elif isinstance(target, ast.Subscript):
            owner = best(evaluate(m, target.value))
            effects.drained(m, owner)
            whole = isinstance(target.slice, ast.Slice) and target.slice.lower is None and target.slice.upper is None
            if isinstance(owner, Seq) and whole and not m.conditions:
                owner.items.clear()
                owner.rest = None
    return ON


def _match(m: Machine, node: ast.Match) -> int:
    evaluate(m, node.subject)

    def way(case: ast.match_case) -> Callable[[], int]:
        def go() -> int:
            for part in ast.walk(case.pattern):
                if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name:
                    m.frame.names[part.name] = m.unknown(part)
            return run(m, case.body)

        return go

    return m.branches([*(way(case) for case in node.cases), lambda: ON])


def _assert(m: Machine, node: ast.Assert) -> int:
    effects.read_as_bool(m, evaluate(m, node.test), node.test)
    return ON


_STEPS: dict[type, Callable[[Machine, Any], int]] = {
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

__all__ = ["Map", "bind", "run", "tensors"]
