"""Using values: after their end, outside their trace, as numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Cause, Either, Ended, Map, Maybe, Obj, Seq, Spot, Tensor, Trace, Value
from tenure.check.value_queries import best, inside, options, relate, tensors

FAKE = "FakeTensorMode"


def use(m: Interpreter, tensor: Tensor, node: ast.AST, *, sure: bool = True) -> None:
    """The bytes of a tensor are read here; not `sure`: those of this tensor or of another one."""
    m.uses += tensor.fw is not None
    source: Any = tensor
    while source is not None:
        source.state.used = m.clock
        source = source.state.origin
    # dispose() and scopes end a handle: views of the same bytes go on. Arrays of JAX end with their bytes.
    ended = tensor.store.state.ended or tensor.state.released
    if isinstance(ended, Maybe) and ended.often and sure and not m.conditions and not tensor.state.alternative:
        ended = ended.spot  # in one of the iterations, it is so
    if ended is not None and not isinstance(ended, Maybe):
        cause, spot, which = ended
        born = which.born if isinstance(which, Tensor) else tensor.born
        m.add_fact(facts.UsedAfterEnd(use=m.spot(node), end=spot, birth=born, cause=cause))
    trace: Any = tensor.trace
    if isinstance(trace, Trace) and trace.ended and trace not in m.traces:
        used_outside(m, tensor, trace, node)
    if tensor.fw is not None and m.world.attempts:
        for one in m.world.attempts:
            one.tensors = True
            one.spot = one.spot or tensor.born


def unfilled(m: Interpreter, gradient: Tensor, node: ast.AST) -> None:
    """A gradient is used that no backward pass fills, unless a condition asks for it."""
    source = gradient.state.unfilled
    if source is not None and not any("=grad" in marks for marks in m.world.guards):
        m.add_fact(facts.GradientOfNonLeaf(use=m.spot(node), birth=source.born))


def used_outside(m: Interpreter, tensor: Tensor, trace: Trace, node: ast.AST) -> None:
    """A traced value is used where its trace is over."""
    fact = m.world.escapes.get(tensor)
    if fact is not None:
        if fact.use is None and not (trace.how == FAKE and m.traces):  # of the same mode, perhaps
            fact.use = m.spot(node)
        return
    if trace.kind == "keras":
        spot = tensor.state.written
        m.add_fact(facts.KerasSymbolic(use=m.spot(node), birth=tensor.born, escape=spot, how=trace.how))


def escaped(m: Interpreter, trace: Trace, tensor: Tensor, spot: Spot, owner: Value, name: str) -> facts.Escape | None:
    """A traced value was left outside its trace. The fact, if it is a new one."""
    before = len(m.facts)
    fact = facts.Escape(
        escape=spot, birth=tensor.born, end=trace.spot, trace=trace.kind, how=trace.how, kept_in=_holder(owner, name)
    )
    m.add_fact(fact)
    if len(m.facts) == before:
        return None
    m.world.escapes[tensor] = fact
    if isinstance(owner, Obj):
        written = m.world.attributes_set.get((id(owner), name, id(trace)), m.clock)
        reads = m.world.attribute_reads.setdefault((id(owner), name), [])
        own = [clock > written for clock, traces in reads if trace in traces]
        if all(own) if own else _only_written(trace, name, spot):
            m.world.scratch.append((fact, trace, reads))
    return fact


def _only_written(trace: Trace, name: str, spot: Spot) -> bool:
    """Whether no code outside of a function of TensorFlow reads an attribute that the function sets."""
    if trace.framework != "tf" or trace.code is None:
        return False
    inner = {id(one) for one in ast.walk(trace.code)}
    return not any(
        isinstance(one, ast.Attribute) and one.attr == name and isinstance(one.ctx, ast.Load) and id(one) not in inner
        for one in spot.module.nodes
    )


def _holder(owner: Value, name: str) -> str:
    if isinstance(owner, Obj):
        return f"`{name}` of {owner.kind}"
    return f"a {owner.kind}" if isinstance(owner, Seq) else "a dict" if name == "rest" else f"`{name}`"


def end(m: Interpreter, value: Value, cause: Cause, node: ast.AST) -> None:
    """The bytes of the tensors in a value end here."""
    for one in tensors(value):
        if cause == "released":
            m.set_state(one.state, "released", (cause, m.spot(node), one))
        else:
            m.set_state(one.store.state, "ended", (cause, m.spot(node), one))


def donated(m: Interpreter, value: Value, node: ast.AST) -> None:
    """The arrays in a value are given to a compiled call."""
    certain = _certain_stores(value)
    for one in arrays(value):
        ended: Ended = ("donated", m.spot(node), one)
        if id(one.store) in certain:
            m.set_state(one.store.state, "ended", ended)
        elif one.store.state.ended is None:
            m.set_state(one.store.state, "ended", Maybe(ended))  # one of several, such as the elements of a list


def arrays(value: Value, depth: int = 0) -> list[Tensor]:
    """The arrays in a value, those in the fields of objects too, each once."""
    found = {id(one.store): one for one in tensors(value)}
    for part in inside(value) if depth < 4 else ():
        if isinstance(part, Obj) and part.cls is not None:
            for own in part.attrs.values():
                found.update((id(one.store), one) for one in arrays(own, depth + 1))
    return list(found.values())


def arguments(m: Interpreter, value: Value, node: ast.AST) -> None:
    """The arrays in an argument are read."""
    certain = _certain_stores(value)
    for one in arrays(value):
        use(m, one, node, sure=id(one.store) in certain)


def _certain_stores(value: Value, depth: int = 0) -> set[int]:
    if isinstance(value, Tensor):
        return {id(value.store)}
    if isinstance(value, Either):
        return set.intersection(*(_certain_stores(one, depth + 1) for one in value.options))
    if isinstance(value, (Map, Seq)) or (isinstance(value, Obj) and value.cls is not None):
        parts = value.items if isinstance(value, Seq) else value.attrs.values()
        return set().union(*(_certain_stores(one, depth + 1) for one in parts)) if depth < 6 else set()
    return set()


def given_twice(m: Interpreter, donated: list[Value], others: list[Value], node: ast.AST) -> None:
    """An array is donated to a call that gets it a second time."""
    seen: dict[int, bool] = {}
    for value, taken in [*((one, True) for one in donated), *((one, False) for one in others)]:
        for one in _leaves(value):
            if seen.get(id(one.store)):
                spot = m.spot(node)
                m.add_fact(facts.UsedAfterEnd(use=spot, end=spot, birth=one.born, cause="donated"))
            seen[id(one.store)] = taken or seen.get(id(one.store), False)
        for group in _groups(value):
            if seen.get(id(group)):
                spot, array = m.spot(node), next(one for one in tensors(group) if one.fw == "jax")
                m.add_fact(facts.UsedAfterEnd(use=spot, end=spot, birth=array.born, cause="donated"))
            seen[id(group)] = taken or seen.get(id(group), False)


def _groups(value: Value, depth: int = 0) -> Iterator[Map | Seq]:
    """The containers in a value of which not each array is known, each as often as it is."""
    parts: Iterable[Value] = ()
    if isinstance(value, (Map, Seq)):
        parts = value.items if isinstance(value, Seq) else value.attrs.values()
        if value.rest is not None and any(one.fw == "jax" for one in tensors(value.rest)):
            yield value
    elif isinstance(value, Obj) and value.cls is not None:
        parts = value.attrs.values()
    for one in parts if depth < 4 else ():
        yield from _groups(one, depth + 1)


def _leaves(value: Value, depth: int = 0) -> Iterator[Tensor]:
    """The arrays in a value that are surely there, each as often as it is."""
    if isinstance(value, Tensor) and value.fw == "jax" and not value.state.alternative:
        yield value
    parts: Iterable[Value] = ()
    if isinstance(value, Seq):
        parts = value.items
    elif isinstance(value, Map) or (isinstance(value, Obj) and value.cls is not None):
        parts = value.attrs.values()
    for one in parts if depth < 4 else ():
        yield from _leaves(one, depth + 1)


def _symbolic(m: Interpreter, value: Value, how: str) -> tuple[Tensor, Trace] | None:
    for one in options(value):
        if isinstance(one, Tensor):
            trace = one.trace
            if trace is not None and trace in m.traces and one.fw in ("jax", "tf") and _certain(m, trace, one, how):
                return one, trace
    return None


_OF_OPERANDS = ("vjp", "jvp", "eval_shape", "linearize")


def _certain(m: Interpreter, trace: Trace, tensor: Tensor, how: str) -> bool:
    """Whether a value is surely a symbol that cannot be read: control flow takes much that is none, so there only what is seen.

    Differentiation without `jit` has values to read, but NumPy rejects them as well.
    """
    if not trace.sure:
        return False
    if trace.concrete:
        return how.startswith("np.")
    if trace.how.rpartition(".")[2] in _OF_OPERANDS:
        return how.startswith("np.") and "assumed" not in tensor.flags
    return trace.kind == "function" or bool(m.world.script)


def all_symbolic(m: Interpreter, value: Value) -> bool:
    """Whether a value has arrays in it, and all of them are symbols without a value."""
    found = arrays(value)
    return bool(found) and all(_symbolic(m, one, "float") is not None for one in found)


def read_as_number(m: Interpreter, value: Value, node: ast.AST, how: str) -> None:
    """`float(x)`, `x.item()`, `x.numpy()`, `np.asarray(x)`."""
    for one in options(value):
        if isinstance(one, Tensor):
            use(m, one, node)
            _keras_read(m, one, node, how)
    found = _symbolic(m, value, how)
    if found is not None and not m.conditions_on_tracing() and not _converted(m, found[0], how):
        birth, trace = found[0].born, found[1]
        m.add_fact(
            facts.SymbolicRead(use=m.spot(node), birth=birth, how=how, trace=trace.how, framework=trace.framework)
        )


_KERAS_CALLS = ("_step", ".update_state", ".result", ".call")


def _converted(m: Interpreter, tensor: Tensor, how: str) -> bool:
    """Whether AutoGraph makes an operation of this: it does of `int` and `float`, but Keras calls its steps without it."""
    keras = any(trace.how.endswith(_KERAS_CALLS) or trace.kind == "keras" for trace in m.traces)
    return tensor.fw == "tf" and how in ("int", "float") and not keras


def _keras_read(m: Interpreter, one: Tensor, node: ast.AST, how: str) -> None:
    if "keras" in one.flags and m.world.script and not m.traces:
        m.add_fact(facts.KerasSymbolic(use=m.spot(node), birth=one.born, how=how))


def chosen(value: Value) -> Value:
    """The one of several alternatives that is followed; of the graphs of the others, nothing is known from here on."""
    one = best(value)
    if isinstance(value, Either):
        relate([other.node for other in value.options if isinstance(other, Tensor)])
        for other in value.options:
            if isinstance(other, Tensor) and other is not one:
                other.state.escaped = True
    return one


def read_as_bool(m: Interpreter, value: Value, node: ast.AST) -> None:
    """`if x:`."""
    if isinstance(value, Tensor):
        _keras_read(m, value, node, "if")
    found = _symbolic(m, value, "if")
    if found is None or m.conditions_on_tracing():
        return
    tensor, trace = found
    if tensor.fw == "jax" and "assumed" not in tensor.flags:
        m.add_fact(facts.SymbolicRead(use=m.spot(node), birth=tensor.born, how="if", trace=trace.how, framework="jax"))


def read_as_text(m: Interpreter, value: Value, node: ast.AST) -> None:
    """`print(x)`, `f"{x}"`: symbols can be printed, ended arrays cannot."""
    for one in options(value):
        if isinstance(one, Tensor) and one.store.state.ended is not None:
            use(m, one, node)


def compared(m: Interpreter, values: list[Value], node: ast.AST) -> Value:
    """`a < b` of tensors."""
    found = [v for v in (best(one) for one in values) if isinstance(v, Tensor)]
    for one in found:
        use(m, one, node)
    known = [one for one in found if one.fw is not None]
    if not known:
        return m.unknown(node)
    made = m.tensor(known[0].fw or "torch", node, parents=known, graph=False)
    made.trace = next((one.trace for one in known if one.trace is not None), made.trace)
    made.flags |= {"keras"} if any("keras" in one.flags for one in known) else frozenset()
    made.state.mask = True
    return made
