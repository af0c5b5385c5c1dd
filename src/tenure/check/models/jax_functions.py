"""Functions that JAX calls in its own way: callbacks, rules for derivatives, and the pullbacks that `vjp` returns."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Const, Func, Options, Seq, Trace, Value, Wrapped
from tenure.check.lifetimes import uses
from tenure.check.lifetimes.traces import tracing
from tenure.check.models.symbols import concrete, symbol
from tenure.check.value_queries import best, tensors

_RULES = ("defvjp", "defjvp", "def_fwd", "def_bwd")


def calls_back(
    m: Interpreter, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """`jax.debug.callback(f, x)`: the function runs outside of the trace, with arrays."""
    given = args[int(words[1]) :]
    for one in (part for value in given for part in tensors(value)):
        uses.use(m, one, node)
    before, m.traces = m.traces, ()
    try:
        if args:
            m.call(args[0], [concrete(m, one, "jax", node) for one in given], {}, node)
    finally:
        m.traces = before
    return NONE if words[1] == "1" else m.tensor("jax", node, parents=[t for value in given for t in tensors(value)])


def own_rules(m: Interpreter, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`jax.custom_vjp(f)`: a function whose derivative is given by rules."""
    function = best(args[0]) if args else best(kwargs.get("fun", NONE))
    if isinstance(function, Const):
        return m.unknown(node)
    return m.own(Wrapped("own rules", function, m.spot(node), Options(kwargs=kwargs)))  # type: ignore[no-any-return]


def rules_given(m: Interpreter, owner: Wrapped, name: str, args: list[Value], node: ast.AST) -> Value | None:
    """`f.defvjp(forward, backward)`, also as a decorator; None if this is another method."""
    if owner.kind != "own rules" or name not in _RULES:
        return None
    owner.options = replace(owner.options, args=args, kind=name)
    return args[0] if args else NONE


def call_with_rules(
    m: Interpreter, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """Call a function with rules of its own: where what JAX compiles is differentiated, they are traced one by one."""
    made = m.call(wrapped.inner, args, kwargs, node)
    rules = [best(one) for one in wrapped.options.args]
    differentiated = any(trace.framework == "jax" and trace.lifts and "vmap" not in trace.how for trace in m.traces)
    staged = bool(m.traces) and not m.traces[-1].lifts  # otherwise they run with the values of the caller
    fixed = bool(wrapped.options.kwargs)  # arguments that are not differentiated, which the rules get as they are
    if not (differentiated and staged) or fixed or kwargs or not all(isinstance(one, (Func, Wrapped)) for one in rules):
        return made
    if wrapped.options.kind == "defvjp" and len(rules) == 2:
        result = best(_rule(m, rules[0], args, "custom_vjp", node))
        kept = result.items[1] if isinstance(result, Seq) and len(result.items) == 2 else m.tensor("jax", node)
        _rule(m, rules[1], [kept, made], "custom_vjp", node)
    elif wrapped.options.kind == "defjvp" and len(rules) == 1:
        pair: list[Value] = [m.seq("tuple", list(args), node), m.seq("tuple", list(args), node)]
        _rule(m, rules[0], pair, "custom_jvp", node)
    return made


def _rule(m: Interpreter, rule: Value, args: list[Value], how: str, node: ast.AST) -> Value:
    trace = Trace("function", how, "jax", m.spot(node))
    trace.sure = False  # of what is given to it, only arrays are traced
    with tracing(m, trace):
        made = m.call(rule, [symbol(m, one, trace, node) for one in args], {}, node)
    return concrete(m, made, "jax", node)


def differentiated(
    m: Interpreter, name: str, result: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """What `vjp`, `jvp` and `linearize` return: the function's result, and a derivative or a function that computes it."""
    if "has_aux" in kwargs:
        return m.unknown_of(args, node)
    if name.endswith("jvp"):
        return m.seq("tuple", [result, concrete(m, result, "jax", node)], node)
    vjp = name.endswith("vjp")
    inputs = [one for value in args[1:] for one in tensors(value)]
    shape: Value = m.seq("tuple", list(args[1:]), node) if vjp else result
    kept = Options(name=name, args=[*inputs, *tensors(result)], kwargs={"like": shape})
    return m.seq("tuple", [result, m.own(Wrapped("pullback", NONE, m.spot(node), kept))], node)


def call_pullback(m: Interpreter, wrapped: Wrapped, args: list[Value], node: ast.AST) -> Value:
    """Call the function that `vjp` or `linearize` returned."""
    for one in (part for value in args for part in tensors(value)):
        uses.use(m, one, node)
    made = concrete(m, wrapped.options.kwargs["like"], "jax", node)
    around = m.trace_of(one for value in (*args, *wrapped.options.args) for one in tensors(value))
    for one in tensors(made):
        one.trace = around if one.fw == "jax" else None
    return made


CALLS: dict[str, Callable[..., Any]] = {
    "calls_back": calls_back,
    "own_rules": lambda m, name, words, args, kwargs, node: own_rules(m, args, kwargs, node),
}
