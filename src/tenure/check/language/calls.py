"""Calls: into functions of the checked code, by following them; into frameworks, by what is known of them."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import facts, syntax
from tenure.check.abstract_interpreter import RETURNED, Interpreter
from tenure.check.abstract_values import (
    NONE,
    Class,
    Const,
    Either,
    Frame,
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
)
from tenure.check.language import builtins, objects, places
from tenure.check.language.attributes import attribute
from tenure.check.language.classes import container, fields
from tenure.check.lifetimes import container_reads, escapes, unused_graphs, uses, writes
from tenure.check.value_queries import best, join, options, read, tensors


def call_node(m: Interpreter, node: ast.Call) -> Value:
    """The value of a call expression."""
    owner: Value | None = None
    name = ""
    if isinstance(node.func, ast.Attribute):
        adds = node.func.attr in container_reads.ADDING
        raw = places.place(m, node.func.value) if adds else m.evaluate(node.func.value)
        several = node.func.attr == "backward" and all(isinstance(one, (Tensor, Const)) for one in options(raw))
        owner = raw if several else uses.chosen(raw)
        if isinstance(raw, Either) and node.func.attr.endswith("_"):
            for one in raw.options:
                if isinstance(one, Tensor) and "expanded" in one.flags and one is not owner:
                    writes.written(m, one, node, node.func.attr, [])
        name = node.func.attr
        function = None
        if isinstance(owner, (Ref, Obj, Class)):
            function = attribute(m, owner, name, node.func)
    else:
        function = best(m.evaluate(node.func))
    args, kwargs = arguments(m, node)
    if function is None:
        return method(m, owner, name, args, kwargs, node)  # type: ignore[arg-type]
    function = best(function)
    if isinstance(owner, Obj) and isinstance(function, Tensor) and function.fw is None:
        if isinstance(inner := owner.attrs.get("<container>"), (Seq, Map)):
            return method(m, inner, name, args, kwargs, node)
        made = m.object_method(owner, name, args, kwargs, node)
        if made is not None:
            return made
    if isinstance(owner, Obj) and isinstance(function, Wrapped):
        m.note_temporary(owner, function, node)
    if isinstance(owner, Ref) and owner.name == "super" and isinstance(function, Tensor):
        return objects.inherited(m, name, args, kwargs, node)
    if isinstance(owner, Class) and owner.family == "torch.Function" and name == "apply":
        return m.call_autograd_function(owner, args, node)
    return call(m, function, args, kwargs, node)


def arguments(m: Interpreter, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of a call; `*args` that are not known end as one unknown."""
    args: list[Value] = []
    about = (isinstance(node.func, ast.Name) and node.func.id in container_reads.ABOUT) or (
        isinstance(node.func, ast.Attribute) and node.func.attr in container_reads.ADDING
    )
    for one in node.args:
        if isinstance(one, ast.Starred):
            value = best(m.evaluate(one.value))
            if isinstance(value, Seq) and value.rest is None:
                read(value)
                args.extend(value.items)
            else:
                args.append(m.unknown(one))
        else:
            args.append(places.place(m, one) if about else m.evaluate(one))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = m.evaluate(keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(given := best(value), Map):
            for key, one_value in given.attrs.items():
                if key[0] == "k" and isinstance(key[1], str):
                    kwargs[key[1]] = one_value
            if given.rest is not None:
                escapes.escape(m, [given.rest])  # which parameter it is given to is not known
    return args, kwargs


def method(
    m: Interpreter, owner: Value, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of a tensor, a container or a plain value."""
    if isinstance(owner, Either):
        return m.call_backward(owner, args, kwargs, node)
    if isinstance(owner, Tensor):
        return m.tensor_method(owner, name, args, kwargs, node)
    if isinstance(owner, Seq):
        return builtins.seq_method(m, owner, name, args, kwargs, node)
    if isinstance(owner, Map):
        return builtins.map_method(m, owner, name, args, kwargs, node)
    if isinstance(owner, (Const, Num)):
        return Num(varies=isinstance(owner, Num) and owner.varies)
    if isinstance(owner, (Func, Wrapped)):
        return m.function_method(owner, name, args, kwargs, node)
    escapes.escape(m, [*args, *kwargs.values()], node)
    return m.unknown(node)


def call(m: Interpreter, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call a value."""
    function = best(function)
    if isinstance(function, Func):
        return call_function(m, function, args, kwargs, node)
    if isinstance(function, Wrapped) and function.kind == "method":
        return method(m, function.inner, function.options.name, args, kwargs, node)  # type: ignore[arg-type]
    if isinstance(function, Wrapped):
        return m.call_wrapped(function, args, kwargs, node)
    if isinstance(function, Class):
        return instantiate(m, function, args, kwargs, node)
    if isinstance(function, Obj):
        return call_object(m, function, args, kwargs, node)
    if isinstance(function, Ref):
        return call_ref(m, function, args, kwargs, node)
    if isinstance(function, Tensor):
        return unknown_call(m, function, args, kwargs, node)
    escapes.escape(m, [*args, *kwargs.values()], node)
    return m.unknown(node)


# What asks about a list without reading what is in it.
_ABOUT = frozenset(f"builtins.{name}" for name in ("len", "print", "isinstance", "id", "type", "bool"))


def call_ref(
    m: Interpreter,
    function: Ref,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST,
    *,
    through: frozenset[str] = frozenset(),
) -> Value:
    """Call something imported, or a builtin. `through` has the names of the imports that led here."""
    name = function.name
    if name not in _ABOUT:
        for arg in args:
            if isinstance(arg, (Seq, Map)):
                read(arg)
    if name.startswith("builtins."):
        return builtins.call(m, name[9:], args, kwargs, node)
    made = m.call_library(name, args, kwargs, node)
    if made is not None:
        return made
    found = resolve(m, name, args)
    if isinstance(found, Ref):  # the other file imports it too, perhaps from this one or from itself
        through |= {name}
        if found.name not in through:
            return call_ref(m, found, args, kwargs, node, through=through)
    elif found is not None:
        return call(m, found, args, kwargs, node)
    escapes.escape(m, [*args, *kwargs.values()], node)
    return m.unknown_of([*args, *kwargs.values()], node)


def resolve(m: Interpreter, name: str, args: list[Value]) -> Value | None:
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
    m: Interpreter, function: Func, args: list[Value], kwargs: dict[str, Value], node: ast.AST, *, entry: bool = False
) -> Value:
    """Follow a function of the checked code."""
    with unused_graphs.passing(m, function.bound, [*args, *kwargs.values()], node, function):
        return _call_function(m, function, args, kwargs, node)


def _call_function(m: Interpreter, function: Func, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    body = function.node
    if len(m.calls) >= m.depth or sum(one is body for one in m.calls) >= 2:
        escapes.escape(m, [*args, *kwargs.values()], node)
        return m.unknown(node)
    m.seen_functions.add(id(body))
    m.followed.add(function.name)
    _retried(m, body, node)
    uses = m.uses
    frame = Frame(function.module, function.name, function.frame, {})
    frame.node = body
    _bind_parameters(m, frame, function, args, kwargs, node)
    previous, m.frame = m.frame, frame
    m.calls.append(body)
    m.sites.append(Spot(previous.module, node, previous.function))
    guards, m.world.guards = m.world.guards, list(m.world.guards)
    attempts = m.world.attempts
    if attempts:
        m.world.attempts = list(attempts)
    depth = m.conditions
    method_of = function.bound
    m.modules += isinstance(method_of, Obj) and method_of.family == "torch.Module"
    try:
        if isinstance(body, ast.Lambda):
            result = m.evaluate(body.body)
            escapes.returned(m, result, body.body)
            return result
        how = m.run(body.body)
        frame_result = frame.returned
        if frame.yielded is not None or _is_generator(body):
            made = m.seq("generator", [], body)
            made.rest = frame.yielded
            made.state.yielded = True
            made.state.frame_tensors = tuple(
                t for value in frame.names.values() for t in tensors(value) if t.fw is not None
            )
            return made
        if frame_result is None:
            return NONE
        if how != RETURNED and not _ends(body.body):
            return or_none(frame_result)
        return frame_result
    finally:
        m.calls.pop()
        m.sites.pop()
        m.modules -= isinstance(method_of, Obj) and method_of.family == "torch.Module"
        for attempt in attempts:
            if attempt.depth == len(m.calls) and m.uses - uses > 2:
                attempt.called.add(id(body))
        m.frame = previous
        m.world.guards = guards
        if attempts:
            if any(one.tensors for one in m.world.attempts[: len(attempts)]):
                for one in attempts:
                    one.tensors = True
            m.world.attempts = attempts
        m.conditions = depth


def _retried(m: Interpreter, body: Any, node: ast.AST) -> None:
    """A second try inside `except`: the failed one's frames, and their tensors, are still held by the exception."""
    if m.world.handlers:
        handler, attempt = m.world.handlers[-1]
        # Called by the handler itself: the function that the handler is in, or one that was tried and used tensors.
        near = len(m.calls) == attempt.depth or bool(m.loops)
        mine = bool(m.calls) and len(m.calls) == attempt.depth and m.calls[-1] is body
        again = (mine or (near and id(body) in attempt.called)) and _of_memory(handler)
        if again and attempt.tensors:
            m.add_fact(facts.RetryInHandler(use=m.spot(node), holder=m.spot(handler), birth=attempt.spot))


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
                waiting.extend(syntax.children(one))
        node.tenure_yields = known
    return bool(known)


def _bind_parameters(
    m: Interpreter, frame: Frame, function: Func, args: list[Value], kwargs: dict[str, Value], node: ast.AST
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


def instantiate(m: Interpreter, cls: Class, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Make an object of a class of the checked code."""
    if cls.family == "torch.Function":
        return m.unknown(node)
    made = m.obj(cls.name, node, cls)
    if isinstance(label := kwargs.get("name"), Const) and cls.family.startswith("keras"):
        m.world.layers_by_name.setdefault(label.value, []).append(made)
    if (kind := container(cls)) is not None:
        inner: Seq | Map = m.own(Map(m.spot(node))) if kind == "dict" else m.seq(kind, [], node)
        own = cls.find("__init__") is not None  # it calls that of the container, or leaves it empty
        inner.rest = m.unknown(node) if (args or kwargs) and not own else None
        made.attrs["<container>"] = inner
    init = cls.find("__init__")
    if isinstance(init, Func):
        call_function(m, init.bind(made), args, kwargs, node)
    elif any(isinstance(base, Ref) and base.name != "builtins.object" for base in cls.bases) and not fields(cls):
        objects.framework_made(m, made, args, kwargs)
    else:
        objects.dataclass_made(m, made, args, kwargs, node)
    return made


def call_object(m: Interpreter, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call an object: a module, a layer, or whatever has `__call__`."""
    with unused_graphs.passing(m, owner, [*args, *kwargs.values()], node):
        return _call_object(m, owner, args, kwargs, node)


def _call_object(m: Interpreter, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if owner.cls is not None:
        names = {
            "torch.Module": ("__call__", "forward"),
            "keras.Layer": ("__call__", "call"),
            "keras.Model": ("__call__", "call"),
        }
        for name in names.get(owner.family, ("__call__",)):
            found = owner.cls.find(name)
            if found is not None:
                return m.call_module(owner, found, args, kwargs, node)
    return m.call_library_object(owner, args, kwargs, node)


def as_function(value: Value) -> Value:
    """A callable object as its method; anything else as it is."""
    value = best(value)
    found = value.cls.find("__call__") if isinstance(value, Obj) and value.cls is not None else None
    return found.bind(value) if isinstance(found, Func) and isinstance(value, Obj) else value


def or_none(value: Value) -> Value:
    """The value, or None."""
    return join(value, NONE)


def unknown_call(m: Interpreter, function: Tensor, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call something of which nothing is known."""
    escapes.escape(m, [*args, *kwargs.values()], node)
    made = m.unknown_of([function, *args, *kwargs.values()], node)
    if function.state.evaluated:
        unused_graphs.assumed(m, function, made, node)
    return made
