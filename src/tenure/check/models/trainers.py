"""Training that a library drives: Lightning and Hugging Face call the steps of the checked code, in loops of their own."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Class, Const, Func, Map, Num, Obj, Ref, Value
from tenure.check.language.iteration import TURNS
from tenure.check.lifetimes import graphs, retention
from tenure.check.syntax import Loop
from tenure.check.value_queries import best

_LIGHTNING = ("lightning.", "pytorch_lightning.")


def drives(cls: Class) -> bool:
    """Whether a library calls the methods of a class: its own steps are known."""
    if any(isinstance(base, Class) and base is not cls and drives(base) for base in cls.bases):
        return True
    names = [base.name for base in cls.bases if isinstance(base, Ref)]
    lightning = any(name.startswith(_LIGHTNING) and name.endswith("LightningModule") for name in names)
    trainer = any(name.startswith("transformers.") and name.endswith("Trainer") for name in names)
    return (lightning and isinstance(cls.find("training_step"), Func)) or (
        trainer and isinstance(cls.find("compute_loss"), Func)
    )


def drive(m: Interpreter, owner: Obj, node: ast.AST) -> None:
    """Follow a whole training: epochs of training steps with their backward passes, then validation without gradients."""
    if owner.state.driven:
        return
    owner.state.driven = True
    optimizers = _call(m, owner, "configure_optimizers", [], node)
    m.world.cleared_modules = [None]
    m.world.zeroed = m.world.grads_cleared = True  # the library resets gradients after each step
    step = "training_step" if owner.cls is not None and owner.cls.find("training_step") else "compute_loss"
    given = m.unknown(node) if step == "compute_loss" else None

    def train() -> None:
        batch = m.unknown(node)
        _call(m, owner, "on_train_batch_start", [batch, Num(varies=True)], node)
        args: list[Value] = [batch, Num(varies=True)] if given is None else [given, batch]
        made = _call(m, owner, step, args, node)
        loss = best(made)
        if isinstance(loss, Map):
            made = loss.attrs.get(("k", "loss"), NONE)
        manual = owner.attrs.get("automatic_optimization")
        if not (isinstance(manual, Const) and manual.value is False):
            graphs.backward(m, made, node, {})
            _call(m, owner, "on_before_optimizer_step", [optimizers], node)
        _call(m, owner, "on_train_batch_end", [made, batch, Num(varies=True)], node)

    def check(kind: str) -> Callable[[], None]:
        def one() -> None:
            _call(m, owner, f"{kind}_step", [m.unknown(node), Num(varies=True)], node)

        return one

    def epoch() -> None:
        _call(m, owner, "on_train_epoch_start", [], node)
        _loop(m, node, train)
        _call(m, owner, "on_train_epoch_end", [], node)
        m.grad.append("no_grad")
        for kind in ("validation", "test", "predict"):
            _call(m, owner, f"on_{kind}_epoch_start", [], node)
            _loop(m, node, check(kind))
            _call(m, owner, f"on_{kind}_epoch_end", [], node)
        m.grad.pop()

    _call(m, owner, "on_train_start", [], node)
    _loop(m, node, epoch)
    _call(m, owner, "on_train_end", [], node)


def _loop(m: Interpreter, node: ast.AST, body: Callable[[], None]) -> None:
    m.uid += 1
    one = Loop(m.uid, node, 0, "python", m.frame.function)
    m.loops.append(one)
    m.loop_ids = (*m.loop_ids, one.uid)
    try:
        for turn in range(TURNS):
            one.turn = turn
            m.clock += 1
            body()
        retention.after_loop(m, one)
    finally:
        m.loops.pop()
        m.loop_ids = m.loop_ids[:-1]


def _call(m: Interpreter, owner: Obj, name: str, given: list[Value], node: ast.AST) -> Value:
    found = owner.cls.find(name) if owner.cls is not None else None
    if not isinstance(found, Func):
        return NONE
    wanted = len(found.node.args.posonlyargs) + len(found.node.args.args) - 1
    return m.call_function(found.bind(owner), given[:wanted], {}, node)
