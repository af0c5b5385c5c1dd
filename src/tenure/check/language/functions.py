"""Functions as values: `def`, `lambda`, and what decorators make of them."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Frame, Func, Obj, Options, Ref, Value, Wrapped
from tenure.check.value_queries import best


def decorated(m: Interpreter, decorator: Value, value: Value, node: ast.expr) -> Value:
    """What a decorator makes of a function."""
    made = _decorated(m, decorator, value, node)
    if isinstance(made, Wrapped) and made.kind == "lru_cache" and made is not value:
        m.world.caches.append(made)
    return made


def _decorated(m: Interpreter, decorator: Value, value: Value, node: ast.expr) -> Value:
    decorator = best(decorator)
    if isinstance(decorator, Ref):
        if decorator.name in ("builtins.property", "builtins.staticmethod"):
            return value
        if decorator.name == "builtins.classmethod":
            return value
        made = m.call(decorator, [value], {}, node)
        return made if isinstance(made, (Wrapped, Func)) else value
    if isinstance(decorator, (Wrapped, Func)):
        made = m.call(decorator, [value], {}, node)
        return made if isinstance(made, (Wrapped, Func)) else value
    if isinstance(decorator, Obj) and decorator.kind == "lru_cache":
        return m.own(Wrapped("lru_cache", value, m.spot(node), Options(maxsize=decorator.state.maxsize)))  # type: ignore[no-any-return]
    if isinstance(decorator, Obj) and decorator.kind == "grad_mode":
        m.grad[-1] = decorator.state.before or m.grad[-1]
        return Wrapped("grad_mode", value, m.spot(node), Options(mode=decorator.state.mode))
    return value


def make_function(m: Interpreter, node: Any) -> Func:
    """The value of a `def` or `lambda`."""
    outer: Frame | None = m.frame if m.frame.node is not None else None
    made: Func = m.own(Func(node, outer, m.frame.module, m.spot(node)))
    args = node.args
    names = [a.arg for a in (*args.posonlyargs, *args.args)]
    for name, default in zip(reversed(names), reversed(args.defaults), strict=False):
        made.defaults[name] = m.evaluate(default)
    for arg, wanted in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if wanted is not None:
            made.defaults[arg.arg] = m.evaluate(wanted)
    return made


def syntax_of(function: Value) -> ast.AST | None:
    """The definition of a function, whatever was made of it."""
    while isinstance(function, Wrapped):
        function = function.inner
    return function.node if isinstance(function, Func) else None
