"""Functions with `lru_cache`: what such a cache keeps, as far as the definition shows it."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Class, Func, Ref


def add_facts(m: Interpreter) -> None:
    """Report caches on methods of modules, which keep the modules, and on functions of tensors, which keep those."""
    for wrapped in m.world.caches:
        limit, function = wrapped.options.maxsize, wrapped.inner
        if not isinstance(function, Func) or (isinstance(limit, int) and limit < 64):
            continue
        arguments = [*function.node.args.posonlyargs, *function.node.args.args]
        method = (
            function.cls is not None
            and function.cls.family == "torch.Module"
            and arguments
            and arguments[0].arg == "self"
        )
        if method or any(_heavy(m, a.annotation) for a in arguments):
            m.add_fact(facts.CacheKeeps(holder=wrapped.born, birth=function.born, how="lru_cache"))


def _heavy(m: Interpreter, annotation: Any) -> bool:
    """Whether an argument is said to be a tensor or a module."""
    names: list[str] = []
    while isinstance(annotation, ast.Attribute):
        names.insert(0, annotation.attr)
        annotation = annotation.value
    if not isinstance(annotation, ast.Name):
        return False
    base = m.lookup(annotation.id)
    if isinstance(base, Class) and not names:
        return base.family == "torch.Module"
    return isinstance(base, Ref) and ".".join([base.name, *names]) in ("torch.Tensor", "torch.nn.Module")
