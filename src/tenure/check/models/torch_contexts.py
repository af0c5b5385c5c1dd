"""Contexts of torch in which tensors have no data."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Entered, Interpreter
from tenure.check.abstract_values import Obj, Trace
from tenure.check.lifetimes.traces import tracing
from tenure.check.lifetimes.uses import FAKE


def _fake_mode(m: Interpreter, value: Obj, node: ast.expr) -> Entered:
    """`with FakeTensorMode():`: a region whose tensors are fake."""
    mode, region = m.grad[-1], tracing(m, Trace("wrapper", FAKE, "torch", m.spot(node)))
    region.__enter__()
    m.grad[-1] = mode

    def leave() -> None:
        region.__exit__(None, None, None)

    return value, leave


CONTEXTS = {"fake mode": _fake_mode}
