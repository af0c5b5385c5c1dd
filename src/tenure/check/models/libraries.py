"""Questions to the libraries: each goes to those that may know, and what none of them knows is unknown."""

from __future__ import annotations

import ast

from tenure.check.abstract_interpreter import Entered, Interpreter
from tenure.check.abstract_values import NONE, Const, Func, Num, Obj, Tensor, Trace, Value, Wrapped
from tenure.check.language import objects, standard_library
from tenure.check.library_calls import effect
from tenure.check.lifetimes import escapes, uses
from tenure.check.lifetimes.traces import tracing
from tenure.check.models import (
    jax_trees,
    operations,
    symbols,
    tensorflow_calls,
    torch_calls,
    trainers,
    transforms,
    unknown_methods,
)
from tenure.check.models.registry import BY_PACKAGE, LIBRARIES, Library
from tenure.check.value_queries import best, tensors


def call(m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """The result of calling a framework's function; None if `name` is not of a framework."""
    head = name.partition(".")[0]
    library = BY_PACKAGE.get(head)
    if library is not None:
        words = effect(name)
        if words[0] == "unknown":
            escapes.escape(m, [*args, *kwargs.values()], node)
            return m.unknown_of([*args, *kwargs.values()], node)
        return _model(m, name, library, words, args, kwargs, node)
    if head == "keras":
        return tensorflow_calls.keras_call(m, name, args, kwargs, node)
    return standard_library.call(m, name, args, kwargs, node)


def _model(
    m: Interpreter,
    name: str,
    library: Library,
    words: tuple[str, ...],
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST,
) -> Value:
    what = words[0]
    given = [*args, *kwargs.values()]
    if what == "traces":
        return transforms.traced(m, name, words, args, kwargs, node)
    if what == "runs":
        return transforms.run_branches(m, name, words, args, kwargs, node)
    if what in ("plain", "plain_op"):
        return _plain(m, name, given, node)
    if what == "same":
        return given[0] if given else m.unknown(node)
    if what == "context":
        return m.obj("context", node)
    if what in ("object", "layer"):
        return m.obj(name, node)
    if what == "calls":
        return m.call(args[0], args[1:], {}, node) if args else m.unknown(node)
    if what in ("tensor", "fresh", "several", "alias", "pair"):
        return operations.operation(m, name, library.framework, words, args, kwargs, node)
    if what == "maps":
        return jax_trees.tree_map(m, args, node)
    if what == "leaves":
        return jax_trees.leaves(m, args, node)
    if what == "host":
        _reads(m, given, node)
        return jax_trees.host(m, args[0], node) if args else m.unknown(node)
    for one in LIBRARIES:  # a line of one library may say what only another one has
        if what in one.calls:
            return one.calls[what](m, name, words, args, kwargs, node)
    escapes.escape(m, given, node)
    return m.unknown_of(given, node)


def _plain(m: Interpreter, name: str, given: list[Value], node: ast.AST) -> Value:
    last = name.rpartition(".")[2]
    if last == "empty_cache":
        return standard_library.call(m, "gc.collect", [], {}, node) or Num()
    if last == "is_compiling":
        return Const(any(t.framework == "torch" for t in m.traces))
    if last == "executing_eagerly":
        return Const(not m.traces)
    if last == "is_tensor" and given:
        one = best(given[0])
        if isinstance(one, (Num, Const)) or (isinstance(one, Tensor) and one.fw is not None):
            return Const(isinstance(one, Tensor))
    _reads(m, given, node)
    return Num()


def _reads(m: Interpreter, values: list[Value], node: ast.AST) -> None:
    for value in values:
        for one in tensors(value):
            uses.use(m, one, node)


def tensor_method(
    m: Interpreter, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of a tensor, or of a value that may be one."""
    if name == "backward":
        return torch_calls.backward_call(m, owner, args, kwargs, node)
    for library in LIBRARIES:
        shown = (owner.fw is None and name in library.telling) or bool(owner.flags & library.flags)
        if (owner.fw == library.framework or shown) and library.tensor_method is not None:
            return library.tensor_method(m, owner, name, args, kwargs, node)
    if name in ("numpy", "item", "tolist"):
        uses.read_as_number(m, owner, node, f".{name}()")
        return Num() if name != "numpy" else m.unknown(node)
    if name == "delete" and not args and m.world.jax:
        if owner.store.state.ended is None:
            uses.end(m, owner, "deleted", node)
        return NONE
    return unknown_methods.method(m, owner, name, args, kwargs, node)


def enter(m: Interpreter, value: Obj, node: ast.expr) -> Entered | None:
    """`with value:`; None if nothing is known of it."""
    for library in LIBRARIES:
        if value.kind in library.contexts:
            return library.contexts[value.kind](m, value, node)
    return None


def object_attribute(m: Interpreter, owner: Obj, name: str, node: ast.AST) -> Value:
    """An attribute of a framework's object."""
    for library in LIBRARIES:
        if (found := library.object_attribute(m, owner, name, node)) is not None:
            return found
    return m.unknown(node)


def object_method(
    m: Interpreter, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """A method of a framework's object; None if nothing is known of it."""
    if (own := objects.tuple_method(m, owner, name, kwargs, node)) is not None:
        return own
    if name in ("log", "log_dict") and owner.cls is not None and trainers.drives(owner.cls):
        return NONE  # it keeps no graph
    if name == "train" and owner.cls is not None and owner.family != "torch.Module" and trainers.drives(owner.cls):
        trainers.drive(m, owner, node)
        return m.unknown(node)
    for library in LIBRARIES:
        if (found := library.object_method(m, owner, name, args, kwargs, node)) is not None:
            return found
    return None


def call_module(
    m: Interpreter, owner: Obj, found: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """Call a module or layer of the checked code."""
    bound = (
        found.bind(owner)
        if isinstance(found, Func)
        else objects.bind_wrapped(m, found, owner, node)
        if isinstance(found, Wrapped)
        else found
    )
    if owner.family.startswith("keras") and isinstance(found, Func) and found.name == "call":
        symbolic = any("keras" in t.flags for arg in (*args, *kwargs.values()) for t in tensors(arg))
        if not symbolic:
            return m.call(bound, args, kwargs, node)
        m.world.symbolic_layers.append(owner)
        trace = Trace("keras", f"{owner.kind}.call", "tf", m.spot(node))
        trace.framework = "keras"
        with tracing(m, trace):
            inner = [symbols.symbol(m, arg, trace, node) for arg in args]
            named = {key: symbols.symbol(m, arg, trace, node) for key, arg in kwargs.items()}
            for one in (t for value in (*inner, *named.values()) for t in tensors(value)):
                one.fw = "tf" if one.trace is trace else one.fw
            made = m.call(bound, inner, named, node)
        value = symbols.concrete(m, made, "tf", node)
        for one in tensors(value):
            one.flags |= {"keras"}
        return value
    made = m.call(bound, args, kwargs, node)
    torch_calls.run_hooks(m, owner, args, made, node)
    return made


def call_framework_object(
    m: Interpreter, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """Call an object of a framework's class."""
    for library in LIBRARIES:
        if (made := library.call_object(m, owner, args, kwargs, node)) is not None:
            return made
    escapes.escape(m, [*args, *kwargs.values()], node)
    return m.unknown_of([*args, *kwargs.values()], node)
