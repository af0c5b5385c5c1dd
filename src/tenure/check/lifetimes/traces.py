"""Traced regions: what is created inside is symbolic until the region ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Map, Obj, Seq, Tensor, Trace
from tenure.check.lifetimes import uses
from tenure.check.value_queries import inside


@contextmanager
def tracing(m: Interpreter, trace: Trace) -> Iterator[None]:
    """Follow something as it is traced; at the end, see what was left behind outside."""
    m.traces = (*m.traces, trace)
    grad, ifs = list(m.grad), m.ifs
    m.ifs = 0  # tests around the call do not decide what each trace does
    m.grad.append("grad")
    try:
        yield
    finally:
        m.traces = m.traces[:-1]
        m.grad[:], m.ifs = grad, ifs
        trace.ended = True
        _left_behind(m, trace)


def _name(key: object) -> str:
    """How a slot is called: a key that is an object has no name."""
    if not isinstance(key, tuple):
        return str(key)
    return str(key[1]) if key[0] == "k" else "rest"


def _left_behind(m: Interpreter, trace: Trace) -> None:
    if trace.kind == "keras":
        return
    # JAX traces every argument; tf.function leaves those that are no tensors alone, and vmap those that it does not map.
    surely = trace.framework == "jax" and not trace.how.endswith(("vmap", "pmap"))
    for holder, key, value, spot, owner in trace.writes:
        if isinstance(holder, dict):
            current = holder.get(key)
        elif isinstance(owner, Seq) and (owner.state.drained_in is trace):
            continue
        else:
            current = value
        if current is None or (isinstance(owner, Obj) and owner.family == "nnx.Module"):
            continue  # the transformations of flax.nnx carry what a module holds out of the trace
        if trace.how == uses.FAKE and not (isinstance(owner, Obj) and owner.family == "torch.Module"):
            continue  # fake tensors are kept for their shapes; those of a module meet its weights
        for one in inside(current):
            if isinstance(one, Tensor) and one.trace is trace and (surely or "assumed" not in one.flags):
                fact = uses.escaped(m, trace, one, spot, owner, _name(key))
                if fact is not None and isinstance(holder, dict) and isinstance(owner, Map):
                    m.world.left.append((fact, trace, holder, key))
                elif fact is not None and (key == "item" or trace.how == uses.FAKE):
                    m.world.left.append((fact, trace, {}, key))  # each trace may replace it before it reads it
                break
