"""Calls: into functions of the checked code, by following them; into frameworks, by what is known of them."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import builtin, effects, frameworks, transforms
from tenure.check.machine import RETURNED, Frame, Machine
from tenure.check.values import (
    NONE,
    Class,
    Const,
    Either,
    Func,
    Map,
    Num,
    Obj,
    Ref,
    Seq,
    Spot,
    Tensor,
    Value,
    Wrapped,
    best,
    read,
    tensors,
)  # fmt: skip


def call_node(m: Machine, node: ast.Call) -> Value:
    """The value of a call expression."""
    from tenure.check.expressions import attribute, evaluate

    owner: Value | None = None
    name = ""
    if isinstance(node.func, ast.Attribute):
        raw = evaluate(m, node.func.value)
        owner = best(raw)
        if isinstance(raw, Either) and node.func.attr.endswith("_"):
            for one in raw.options:
                if isinstance(one, Tensor) and "expanded" in one.flags and one is not owner:
                    effects.written(m, one, node, node.func.attr, [])
        name = node.func.attr
        function = None
        if isinstance(owner, (Ref, Obj, Class)):
            function = attribute(m, owner, name, node.func)
    else:
        function = best(evaluate(m, node.func))
    args, kwargs = arguments(m, node)
    if function is None:
        return method(m, owner, name, args, kwargs, node)  # type: ignore[arg-type]
    function = best(function)
    if isinstance(owner, Obj) and isinstance(function, Tensor) and function.fw is None:
        made = frameworks.object_method(m, owner, name, args, kwargs, node)
        if made is not None:
            return made
    if isinstance(owner, Obj) and isinstance(function, Wrapped):
        transforms.of_temporary(m, owner, function, node)
    if isinstance(owner, Ref) and owner.name == "super" and isinstance(function, Tensor):
        return NONE
    return call(m, function, args, kwargs, node)


def arguments(m: Machine, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of a call; `*args` that are not known end as one unknown."""
    from tenure.check.expressions import evaluate

    args: list[Value] = []
    for one in node.args:
        if isinstance(one, ast.Starred):
            value = best(evaluate(m, one.value))
            if isinstance(value, Seq) and value.rest is None:
                read(value)
                args.extend(value.items)
            else:
                args.append(m.unknown(one))
        else:
            args.append(evaluate(m, one))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = evaluate(m, keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(best(value), Map):
            for key, one_value in best(value).attrs.items():  # type: ignore[attr-defined]
                if key[0] == "k" and isinstance(key[1], str):
                    kwargs[key[1]] = one_value
    return args, kwargs


def method(m: Machine, owner: Value, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call) -> Value:
    """A method of a tensor, a container or a plain value."""
    if isinstance(owner, Tensor):
        return frameworks.tensor_method(m, owner, name, args, kwargs, node)
    if isinstance(owner, Seq):
        return builtin.seq_method(m, owner, name, args, kwargs, node)
    if isinstance(owner, Map):
        return builtin.map_method(m, owner, name, args, kwargs, node)
    if isinstance(owner, (Const, Num)):
        return Num(varies=isinstance(owner, Num) and owner.varies)
    if isinstance(owner, (Func, Wrapped)):
        return transforms.function_method(m, owner, name, args, kwargs, node)
    effects.escape(m, [*args, *kwargs.values()], node)
    return m.unknown(node)


def call(m: Machine, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call a value."""
    function = best(function)
    if isinstance(function, Func):
        return call_function(m, function, args, kwargs, node)
    if isinstance(function, Wrapped):
        return transforms.call_wrapped(m, function, args, kwargs, node)
    if isinstance(function, Class):
        return instantiate(m, function, args, kwargs, node)
    if isinstance(function, Obj):
        return call_object(m, function, args, kwargs, node)
    if isinstance(function, Ref):
        return call_ref(m, function, args, kwargs, node)
    if isinstance(function, Tensor):
        return frameworks.unknown_call(m, function, args, kwargs, node)
    return m.unknown(node)


# What asks about a list without reading what is in it.
_ABOUT = frozenset(f"builtins.{name}" for name in ("len", "print", "isinstance", "id", "type", "bool"))


def call_ref(m: Machine, function: Ref, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call something imported, or a builtin."""
    name = function.name
    if name not in _ABOUT:
        for arg in args:
            if isinstance(arg, (Seq, Map)):
                read(arg)
    if name.startswith("builtins."):
        return builtin.call(m, name[9:], args, kwargs, node)
    made = frameworks.call(m, name, args, kwargs, node)
    if made is not None:
        return made
    found = resolve(m, name, args)
    if found is not None:
        return call(m, found, args, kwargs, node)
    effects.escape(m, [*args, *kwargs.values()], node)
    return m.unknown(node)


def resolve(m: Machine, name: str, args: list[Value]) -> Value | None:
    """A function or class of another file of the checked code."""
    if m.loader is None:
        return None
    level = len(name) - len(name.lstrip("."))
    home, _, last = name.lstrip(".").rpartition(".")
    worth = bool(m.traces) or any(t.graph for arg in args for t in tensors(arg))
    if not home or (level and not worth):
        return None
    # A file beside this one is looked into in any case, one further off only for the sake of tensors.
    module = m.loader(home, level, m.frame.module, near=not worth)
    found = module.names.get(last) if module is not None else None
    return best(found) if found is not None else None


def call_function(
    m: Machine, function: Func, args: list[Value], kwargs: dict[str, Value], node: ast.AST, *, entry: bool = False
) -> Value:
    """Follow a function of the checked code."""
    body = function.node
    if len(m.calls) >= m.depth or sum(one is body for one in m.calls) >= 2:
        effects.escape(m, [*args, *kwargs.values()], node)
        return m.unknown(node)
    m.seen_functions.add(id(body))
    _retried(m, body, node)
    uses = m.uses
    frame = Frame(function.module, function.name, function.frame, {})
    frame.node = body
    _bind_parameters(m, frame, function, args, kwargs, node)
    previous, m.frame = m.frame, frame
    m.calls.append(body)
    m.sites.append(Spot(previous.module, node, previous.function))
    guards, m.world["guards"] = m.world.get("guards", []), list(m.world.get("guards", []))
    tries = m.world.get("tries")
    if tries:
        m.world["tries"] = list(tries)
    depth = m.conditions
    try:
        if isinstance(body, ast.Lambda):
            from tenure.check.expressions import evaluate

            result = evaluate(m, body.body)
            effects.returned(m, result, body.body)
            return result
        from tenure.check.statements import run

        how = run(m, body.body)
        frame_result = frame.returned
        if frame.yielded is not None or _is_generator(body):
            made = m.seq("generator", [], body)
            made.rest = frame.yielded
            made.state["yielded"] = True
            made.state["frame"] = [t for value in frame.names.values() for t in tensors(value) if t.fw is not None]
            return made
        if frame_result is None:
            return NONE
        if how != RETURNED and not _ends(body.body):
            return effects.or_none(frame_result)
        return frame_result
    finally:
        m.calls.pop()
        m.sites.pop()
        for record in tries or ():
            if record["depth"] == len(m.calls) and m.uses - uses > 2:
                record.setdefault("called", set()).add(id(body))
        effects.function_ended(m, frame, function)
        m.frame = previous
        m.world["guards"] = guards
        if tries:
            if any(one["tensors"] for one in m.world["tries"][: len(tries)]):
                for one in tries:
                    one["tensors"] = True
            m.world["tries"] = tries
        m.conditions = depth


def _retried(m: Machine, body: Any, node: ast.AST) -> None:
    """A second try inside `except`: the failed one's frames, and their tensors, are still held by the exception."""
    handlers = m.world.get("handlers", [])
    if handlers:
        _tried, handler, record = handlers[-1]
        # Called by the handler itself: the function that the handler is in, or one that was tried and used tensors.
        near = len(m.calls) == record["depth"] or bool(m.loops)
        mine = bool(m.calls) and len(m.calls) == record["depth"] and m.calls[-1] is body
        again = (mine or (near and id(body) in record.get("called", ()))) and _of_memory(handler)
        if again and record["tensors"]:
            m.tell(
                "retry in handler", [("use", m.spot(node)), ("holder", m.spot(handler)), ("birth", record.get("spot"))]
            )


def _of_memory(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for running out of memory, or for all errors."""
    names = (
        {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(handler.type)}
        if handler.type is not None
        else {"Exception"}
    )
    wide = {"RuntimeError", "MemoryError", "Exception", "BaseException"}
    return any(name in wide or "memory" in name.lower() or "oom" in name.lower() for name in names)


def _ends(body: list[ast.stmt]) -> bool:
    last = body[-1]
    return isinstance(last, (ast.Return, ast.Raise)) or (
        isinstance(last, (ast.With, ast.Try, ast.For, ast.While)) and bool(last.body) and _ends(last.body)
    ) or (isinstance(last, ast.If) and bool(last.orelse) and _ends(last.body) and _ends(last.orelse))  # fmt: skip


def _is_generator(node: Any) -> bool:
    known = getattr(node, "tenure_yields", None)
    if known is None:
        known = False
        waiting: list[ast.AST] = list(node.body)
        while waiting and not known:
            one = waiting.pop()
            if isinstance(one, (ast.Yield, ast.YieldFrom)):
                known = True
            elif not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                waiting.extend(ast.iter_child_nodes(one))
        node.tenure_yields = known
    return bool(known)


def _bind_parameters(
    m: Machine, frame: Frame, function: Func, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> None:
    spec = function.node.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    given = [function.bound, *args] if function.bound is not None else list(args)
    frame.names.update(zip(names, given, strict=False))
    if spec.vararg is not None:
        frame.names[spec.vararg.arg] = m.seq("tuple", list(given[len(names) :]), node)
    extra: Map | None = None
    if spec.kwarg is not None:
        extra = m.own(Map(m.spot(node)))
        frame.names[spec.kwarg.arg] = extra
    known = {*names, *(a.arg for a in spec.kwonlyargs)}
    for name, value in kwargs.items():
        if name in known:
            frame.names[name] = value
        elif extra is not None:
            extra.attrs["k", name] = value
    for name in known:
        if name not in frame.names:
            default = function.defaults.get(name)
            frame.names[name] = default if default is not None else m.unknown(node)


def instantiate(m: Machine, cls: Class, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Make an object of a class of the checked code."""
    if cls.family == "torch.Function":
        return m.unknown(node)
    made = m.obj(cls.name, node, cls)
    made.state["repeated"] = bool(m.loops)
    init = cls.find("__init__")
    if isinstance(init, Func):
        call_function(m, init.bind(made), args, kwargs, node)
    elif any(isinstance(base, Ref) and base.name != "builtins.object" for base in cls.bases) and not _fields(cls):
        effects.framework_made(m, made, args, kwargs)
    else:
        effects.dataclass_made(m, made, args, kwargs)
    return made


def _fields(cls: Class) -> bool:
    return any(isinstance(one, ast.AnnAssign) for one in cls.node.body)


def call_object(m: Machine, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call an object: a module, a layer, or whatever has `__call__`."""
    if owner.cls is not None:
        names = {
            "torch.Module": ("__call__", "forward"),
            "keras.Layer": ("__call__", "call"),
            "keras.Model": ("__call__", "call"),
        }
        for name in names.get(owner.family, ("__call__",)):
            found = owner.cls.find(name)
            if found is not None:
                return frameworks.call_module(m, owner, found, args, kwargs, node)
    return frameworks.call_framework_object(m, owner, args, kwargs, node)
