"""Keras's own loop: the steps, losses and callbacks that `fit` calls, and what is traced of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Class, Const, Func, Map, Num, Obj, Tensor, Trace, Value, Wrapped
from tenure.check.lifetimes.traces import tracing
from tenure.check.models import symbols
from tenure.check.syntax import Loop
from tenure.check.value_queries import best, inside, tensors

_COMPILED = ("optimizer", "loss", "loss_weights", "metrics", "weighted_metrics")  # what `compile` takes, in order
_EVENTS = {
    "on_train_begin": "", "on_epoch_begin": "epochs", "on_train_batch_begin": "batches", "on_batch_begin": "batches",
    "on_train_batch_end": "batches", "on_batch_end": "batches", "on_epoch_end": "epochs", "on_train_end": "",
}  # fmt: skip


def method(m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> bool:
    """Follow `compile`, `fit` and their like; whether this was one of them."""
    if owner.family != "keras.Model":
        return False
    if name == "compile":
        named = {**dict(zip(_COMPILED, args, strict=False)), **kwargs}
        owner.state.compiled = [
            one
            for key in ("loss", "metrics", "weighted_metrics")
            for one in (inside(named[key]) if key in named else ())
            if isinstance(one, (Func, Wrapped)) or (isinstance(one, Obj) and one.cls is not None)
        ]
        eager = best(kwargs.get("run_eagerly", Const(None)))
        owner.state.eager = not (isinstance(eager, Const) and not eager.value)
        return True
    if name not in ("fit", "evaluate", "predict", "train_on_batch"):
        return False
    if owner.state.eager or m.world.functions_eager:
        layers_run(m, node)
    else:
        with_losses = name == "fit" and "tensorflow" in (m.main.text if m.main is not None else "")
        _steps(m, owner, owner.state.compiled if with_losses else [], node)
    if name == "fit" and "callbacks" in kwargs:
        _callbacks(m, owner, kwargs, node)
    return True


def layers_run(m: Interpreter, node: ast.AST) -> None:
    """A model runs eagerly: what its layers store in `call` are arrays from now on."""
    for layer in m.world.symbolic_layers:
        for name, value in layer.attrs.items():
            if any(one.trace is not None and one.trace.kind == "keras" for one in tensors(value)):
                m.put(layer.attrs, name, m.unknown(node))


def _steps(m: Interpreter, owner: Obj, losses: Sequence[Value], node: ast.AST) -> None:
    """`fit` traces the model's own steps; or its `call` and, in the same trace, the functions given to `compile`."""
    own = [owner.cls.find(name) if owner.cls else None for name in ("train_step", "test_step", "predict_step")]
    for found in own:
        if isinstance(found, Func):
            step(m, owner, found, node)
    called = owner.cls.find("call") if owner.cls else None
    if isinstance(own[0], Func) or not (losses or isinstance(called, Func)):
        return
    trace = Trace("keras", f"{owner.kind}.call", "keras", m.spot(called.node if isinstance(called, Func) else node))
    with tracing(m, trace):
        if isinstance(called, Func):
            m.call_function(called.bind(owner), [_given(m, trace, node)], {}, node)
        for function in losses:
            if not isinstance(function, Obj):
                m.call(function, [_given(m, trace, node), _given(m, trace, node)], {}, node)
    for one in losses:
        if isinstance(one, Obj) and one.cls is not None:
            _compared(m, one, one.cls)


def _compared(m: Interpreter, owner: Obj, cls: Class) -> None:
    """Follow a loss or a metric that is an object: the step calls its methods in its own trace."""
    methods = [found for name in ("call", "update_state", "result") if isinstance(found := cls.find(name), Func)]
    if not methods:
        return
    first = methods[0]
    trace = Trace("function", f"{owner.kind}.{first.name}", "tf", m.spot(first.node))
    with tracing(m, trace):
        for found in methods:
            given: list[Value] = [_given(m, trace, found.node) for _ in range(0 if found.name == "result" else 2)]
            m.call_function(found.bind(owner), given, {}, found.node)


def _given(m: Interpreter, trace: Trace, node: ast.AST) -> Tensor:
    made = symbols.assumed(m, trace, node)
    made.fw = "tf"
    return made


def step(m: Interpreter, owner: Obj, function: Func, node: ast.AST) -> None:
    """Follow one of a Keras model's steps as `fit` traces it."""
    trace = Trace("function", f"{owner.kind}.{function.name}", "tf", m.spot(function.node))
    with tracing(m, trace):
        data = m.seq("tuple", [symbols.assumed(m, trace, node), symbols.assumed(m, trace, node)], node)
        m.call_function(function.bind(owner), [data], {}, node)


def _callbacks(m: Interpreter, owner: Obj, kwargs: dict[str, Value], node: ast.Call) -> None:
    """Callbacks run between the steps, outside of any trace."""
    for one in inside(kwargs["callbacks"]):
        if isinstance(one, Obj) and one.cls is not None:
            one.attrs.setdefault("model", owner)
            for name, often in _EVENTS.items():
                found = one.cls.find(name)
                if isinstance(found, Func):
                    _event(m, found.bind(one), often, kwargs, node)


def _event(m: Interpreter, function: Func, often: str, kwargs: dict[str, Value], node: ast.Call) -> None:
    logs: Map = m.own(Map(m.spot(node)))
    logs.rest = Num(varies=True)
    epochs = best(kwargs.get("epochs", Const(1)))
    few = often == "epochs" and isinstance(epochs, Const) and isinstance(epochs.value, int) and epochs.value <= 16
    if not often or few:
        m.call_function(function, ([Num()] if often else []) + [logs], {}, node)
        return
    m.uid += 1
    loop = Loop(m.uid, node, 0, "python", m.frame.function)
    m.loops.append(loop)
    m.loop_ids = (*m.loop_ids, loop.uid)
    try:
        for turn in range(2):
            loop.turn = turn
            m.clock += 1
            m.call_function(function, [Num(varies=True), logs], {}, node)
    finally:
        m.loops.pop()
        m.loop_ids = m.loop_ids[:-1]
