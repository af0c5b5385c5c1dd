"""Modules of JAX's libraries: flax, equinox, haiku. Their layers make arrays; their methods run in the caller's trace."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Func, Obj, Options, Value, Wrapped
from tenure.check.library_calls import effect
from tenure.check.lifetimes import uses
from tenure.check.models import jax_functions
from tenure.check.models.symbols import concrete
from tenure.check.value_queries import best, tensors

# What `apply` takes for itself, before the arguments of the module's method.
_OWN_WORDS = frozenset(["rngs", "mutable", "method", "capture_intermediates"])


def transformed(m: Interpreter, name: str, args: list[Value], node: ast.AST) -> Value:
    """`hk.transform(f)`: its `apply` takes parameters and a key before the arguments of `f`."""
    made = m.obj("haiku transform", node)
    made.state.function = best(args[0]) if args else NONE
    made.state.with_state = name.endswith("with_state")
    made.state.drop = 3 if name.endswith("with_state") else 2
    return made


def without_rng(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    """`hk.without_apply_rng(…)`: `apply` takes no key."""
    inner = best(args[0]) if args else NONE
    if not (isinstance(inner, Obj) and inner.kind == "haiku transform"):
        return m.unknown(node)
    made = m.obj("haiku transform", node)
    made.state.function, made.state.with_state = inner.state.function, inner.state.with_state
    made.state.drop = inner.state.drop - 1
    return made


def object_attribute(m: Interpreter, owner: Obj, name: str, node: ast.AST) -> Value | None:
    """`model.apply` and `model.init`, as functions that can be called or transformed."""
    if owner.kind == "haiku transform" and name in ("apply", "init"):
        drop = owner.state.drop if name == "apply" else 1
        given = Options(drop=drop, part=owner.state.with_state, init=name == "init")
        return m.own(Wrapped("drop", owner.state.function or NONE, m.spot(node), given))  # type: ignore[no-any-return]
    if owner.family == "flax.Module" and name in ("apply", "init", "init_with_output") and owner.cls is not None:
        found = owner.cls.find("__call__")
        if not isinstance(found, Func):
            return None
        given = Options(drop=1, part=name == "init_with_output", init=name == "init", module=owner)
        return m.own(Wrapped("drop", found.bind(owner), m.spot(node), given))  # type: ignore[no-any-return]
    return None


def call_dropped(m: Interpreter, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call the function inside `apply` or `init` with the arguments that are its own."""
    o = wrapped.options
    function = wrapped.inner
    for value in args:
        for one in tensors(value):
            uses.use(m, one, node)
    module = o.module
    if isinstance(module, Obj) and module.cls is not None:
        setup = module.cls.find("setup")
        if isinstance(setup, Func):
            m.call_function(setup.bind(module), [], {}, node)
        chosen = best(kwargs["method"]) if "method" in kwargs else None
        if isinstance(chosen, Func):
            function = chosen.bind(module)
        elif chosen is not None:
            return m.unknown_of(args, node)
    own = {key: value for key, value in kwargs.items() if key not in _OWN_WORDS}
    result = m.call(function, args[o.drop :], own, node)
    if o.init:
        return m.unknown_of(args, node)
    if o.part or "mutable" in kwargs or "capture_intermediates" in kwargs:
        return m.seq("tuple", [result, m.unknown_of(args, node)], node)
    return result


def call_object(m: Interpreter, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """Call one of the libraries' own layers."""
    if owner.cls is not None or effect(owner.kind)[0] != "layer":
        return None
    inputs = [one for value in (*args, *kwargs.values()) for one in tensors(value)]
    for one in inputs:
        uses.use(m, one, node)
    return m.tensor("jax", node, parents=inputs)


def like_first(m: Interpreter, args: list[Value], node: ast.AST) -> Value:
    """A tree of new arrays with the structure of the first argument."""
    if not args:
        return m.unknown(node)
    made = concrete(m, args[0], "jax", node)
    around = m.trace_of(one for value in args for one in tensors(value))
    for one in tensors(made):
        one.trace = around if one.fw == "jax" else None
    return made


CALLS: dict[str, Callable[..., Value]] = {
    **jax_functions.CALLS,
    "like": lambda m, name, words, args, kwargs, node: like_first(m, args, node),
    "transform": lambda m, name, words, args, kwargs, node: transformed(m, name, args, node),
    "without_rng": lambda m, name, words, args, kwargs, node: without_rng(m, args, node),
}
