"""Using values: after their end, outside their trace, as numbers."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check.machine import Machine, Trace
from tenure.check.values import Const, Maybe, Num, Obj, Seq, Spot, Tensor, Value, best, options, tensors


def use(m: Machine, tensor: Tensor, node: ast.AST) -> None:
    """The bytes of a tensor are read here."""
    m.uses += tensor.fw is not None
    source: Any = tensor
    while source is not None:
        source.state["used"] = m.clock
        source = source.state.get("origin")
    # dispose() and scopes end a handle: views of the same bytes go on. Arrays of JAX end with their bytes.
    ended = tensor.store.state.get("ended") or tensor.state.get("released")
    if ended is not None and not isinstance(ended, Maybe):
        cause, spot, which = ended
        born = which.born if isinstance(which, Tensor) else tensor.born
        m.tell("used after end", [("use", m.spot(node)), ("end", spot), ("birth", born)], cause=cause, fw=tensor.fw)
    trace: Any = tensor.trace
    if isinstance(trace, Trace) and trace.ended and trace not in m.traces:
        used_outside(m, tensor, trace, node)
    if tensor.fw is not None and m.world.get("tries"):
        for one in m.world["tries"]:
            one["tensors"] = True
            one.setdefault("spot", tensor.born)


def used_outside(m: Machine, tensor: Tensor, trace: Trace, node: ast.AST) -> None:
    """A traced value is used where its trace is over."""
    fact = tensor.state.get("escape")
    if fact is not None:
        if not any(role == "use" for role, _ in fact.spots):
            fact.spots.append(("use", m.spot(node)))
        return
    if trace.kind == "keras":
        spot = tensor.state.get("written")
        m.tell("keras symbolic", [("use", m.spot(node)), ("birth", tensor.born), ("escape", spot)], how=trace.how)


def escaped(m: Machine, trace: Trace, tensor: Tensor, spot: Spot, owner: Value, name: str) -> None:
    """A traced value was left outside its trace."""
    before = len(m.facts)
    m.tell(
        "escape", [("escape", spot), ("birth", tensor.born), ("end", trace.spot)],
        trace=trace.kind, how=trace.how, framework=trace.framework, holder=_holder(owner, name), name=name,
    )  # fmt: skip
    if len(m.facts) > before:
        tensor.state["escape"] = m.facts[-1]


def _holder(owner: Value, name: str) -> str:
    if isinstance(owner, Obj):
        return f"`{name}` of {owner.kind}"
    return f"a {owner.kind}" if isinstance(owner, Seq) else "a dict" if name == "rest" else f"`{name}`"


def end(m: Machine, value: Value, cause: str, node: ast.AST) -> None:
    """The bytes of the tensors in a value end here."""
    for one in tensors(value):
        if cause == "released":
            m.put(one.state, "released", (cause, m.spot(node), one))
        else:
            m.put(one.store.state, "ended", (cause, m.spot(node), one))


def donated(m: Machine, value: Value, node: ast.AST) -> None:
    """The arrays in a value are given to a compiled call."""
    seen: set[int] = set()
    for part in options(value):
        if isinstance(part, Obj) and part.cls is not None:
            for inner in part.attrs.values():
                donated(m, inner, node)
    for one in tensors(value):
        if id(one.store) not in seen:
            seen.add(id(one.store))
            m.put(one.store.state, "ended", ("donated", m.spot(node), one))


def _symbolic(m: Machine, value: Value) -> Tensor | None:
    for one in options(value):
        if isinstance(one, Tensor):
            trace: Any = one.trace
            if isinstance(trace, Trace) and trace in m.traces and one.fw in ("jax", "tf") and _certain(m, trace):
                return one
    return None


def _certain(m: Machine, trace: Trace) -> bool:
    """Whether arguments are surely symbols: `vmap` and control flow take much that is none, so there only what is seen."""
    if trace.concrete or trace.how.rpartition(".")[2] in ("vmap", "vjp", "jvp", "eval_shape", "linearize"):
        return False
    return trace.kind == "function" or bool(m.world.get("script"))


def read_as_number(m: Machine, value: Value, node: ast.AST, how: str) -> None:
    """`float(x)`, `x.item()`, `x.numpy()`, `np.asarray(x)`."""
    for one in options(value):
        if isinstance(one, Tensor):
            use(m, one, node)
            _keras_read(m, one, node, how)
    found = _symbolic(m, value)
    if found is not None and not m.conditions_on_tracing():
        trace: Trace = found.trace
        m.tell(
            "symbolic read",
            [("use", m.spot(node)), ("birth", found.born)],
            how=how,
            trace=trace.how,
            framework=trace.framework,
        )


def _keras_read(m: Machine, one: Tensor, node: ast.AST, how: str) -> None:
    if "keras" in one.flags and m.world.get("script") and not m.traces:
        m.tell("keras symbolic", [("use", m.spot(node)), ("birth", one.born)], how=how)


def read_as_bool(m: Machine, value: Value, node: ast.AST) -> None:
    """`if x:`."""
    if isinstance(value, Tensor):
        _keras_read(m, value, node, "if")
    found = _symbolic(m, value)
    if found is not None and found.fw == "jax" and "assumed" not in found.flags and not m.conditions_on_tracing():
        m.tell(
            "symbolic read",
            [("use", m.spot(node)), ("birth", found.born)],
            how="if",
            trace=found.trace.how,
            framework="jax",
        )


def read_as_text(m: Machine, value: Value, node: ast.AST) -> None:
    """`print(x)`, `f"{x}"`: symbols can be printed, ended arrays cannot."""
    for one in options(value):
        if isinstance(one, Tensor) and one.store.state.get("ended") is not None:
            use(m, one, node)


def compared(m: Machine, values: list[Value], node: ast.AST) -> Value:
    """`a < b` of tensors."""
    found = [v for v in (best(one) for one in values) if isinstance(v, Tensor)]
    for one in found:
        use(m, one, node)
    known = [one for one in found if one.fw is not None]
    if not known:
        return Num()
    made = m.tensor(known[0].fw or "torch", node, parents=known, graph=False)
    made.trace = next((one.trace for one in known if one.trace is not None), made.trace)
    made.flags |= {"keras"} if any("keras" in one.flags for one in known) else frozenset()
    made.state["mask"] = True
    return made


__all__ = ["Const", "compared", "donated", "end", "escaped", "read_as_bool", "read_as_number", "read_as_text", "use"]
