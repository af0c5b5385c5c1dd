"""Gradient tapes as holders: which of them recorded the operation that a list, tuple or function was kept for.

A tape is native code. It keeps an operation's inputs in a tuple and its results in a list. The garbage collector sees
these, but not the tape as their holder. TensorFlow answers only whether any open tape of the asking thread recorded a
tensor. So each tape is opened alone in a thread of its own, where no other tape is open and no operation runs.

Of a tf.function's call a tape keeps a function instead. No tensor tells whose it is, so only a single tape is named.
"""

from __future__ import annotations

import _thread
from types import FunctionType
from typing import Any

from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import backprop
from tensorflow.python.framework import ops

from tenure import heap
from tenure.model import Link

_PARTS: dict[type, str] = {list: "saved output", tuple: "saved input"}
_OF_TRACED = (
    "_backward_function_wrapper"  # how TensorFlow calls the function that a tape keeps for a tf.function's call
)
_MANY = 64  # tapes that are asked


def savers(things: list[Any]) -> list[tuple[Any, Any, tuple[Link, ...]]]:
    """Return for each of these that a live tape keeps: the thing, the tape, and the links of the reference path.

    `things` are lists, tuples and functions with a reference from native code.
    """
    wanted = [(thing, _tensors(thing)) for thing in things if type(thing) in _PARTS]
    traced = [thing for thing in things if type(thing) is FunctionType and _is_traced(thing)]
    if not traced and not any(tensors for _, tensors in wanted):
        return []
    tapes = [tape for tape in heap.instances(heap.family(backprop.GradientTape)) if _inner(tape) is not None]
    found: list[tuple[Any, Any, tuple[Link, ...]]] = [
        (thing, tape, (Link(_shown(tape), "tape"), Link(_PARTS[type(thing)], "saved")))
        for tape, thing in _ask(tapes[:_MANY], [(thing, tensors) for thing, tensors in wanted if tensors])
    ]
    if len(tapes) == 1:
        found.extend((thing, tapes[0], (Link(_shown(tapes[0]), "tape"),)) for thing in traced)
    return found


def _is_traced(function: FunctionType) -> bool:
    return function.__code__.co_name == _OF_TRACED and str(function.__module__).startswith("tensorflow.")


def _tensors(thing: Any) -> list[Any]:
    return [part for part in heap.referents([thing]) if issubclass(type(part), ops.EagerTensor)]


def _inner(tape: Any) -> Any:
    """The native tape: none once it has given its gradient, or before its block was entered."""
    return getattr(getattr(tape, "_tape", None), "_tape", None)


def _ask(tapes: list[Any], wanted: list[tuple[Any, list[Any]]]) -> list[tuple[Any, Any]]:
    """The pairs of a tape and a thing of which the tape recorded a tensor."""
    found: list[tuple[Any, Any]] = []
    if not tapes or not wanted:
        return found
    done = _thread.allocate_lock()
    done.acquire()

    def ask() -> None:
        try:
            for tape in tapes:
                inner = _inner(tape)
                if inner is not None:
                    found.extend((tape, thing) for thing in _recorded(inner, wanted))
        finally:
            done.release()

    # Not a `threading.Thread`, which the program could list and join, and which runs the program's trace functions.
    try:
        _thread.start_new_thread(ask, ())
    except RuntimeError:  # no thread starts at the end of the interpreter, or beyond the system's limit
        return []
    done.acquire()
    return found


def _recorded(inner: Any, wanted: list[tuple[Any, list[Any]]]) -> list[Any]:
    pywrap_tfe.TFE_Py_TapeSetAdd(inner)
    try:
        return [thing for thing, tensors in wanted if pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(tensors)]
    finally:
        pywrap_tfe.TFE_Py_TapeSetRemove(inner)


def _shown(tape: Any) -> str:
    kinds = ["open"] * bool(getattr(tape, "_recording", False)) + ["persistent"] * bool(tape._persistent)
    return " ".join([*kinds, "GradientTape"])
