"""Calls into frameworks: the words of the models become values."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import (
    autograd,
    effects,
    parts,
    retracing,
    stdlib,
    tensorflow_model,
    torch_model,
    torch_objects,
    transforms,
)
from tenure.check.contexts import tracing
from tenure.check.machine import Machine, Trace
from tenure.check.models import effect
from tenure.check.values import (
    NONE,
    Class,
    Const,
    Func,
    Map,
    Node,
    Num,
    Obj,
    Seq,
    Tensor,
    Value,
    Wrapped,
    best,
    inside,
    tensors,
)  # fmt: skip


def call(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """The result of calling a framework's function; None if `name` is not of a framework."""
    head = name.partition(".")[0]
    if head in ("torch", "functorch", "jax", "equinox", "tensorflow", "flax", "optax"):
        words = effect(name)
        if words[0] == "unknown":
            effects.escape(m, [*args, *kwargs.values()], node)
            return m.unknown(node)
        return _model(m, name, head, words, args, kwargs, node)
    if head == "keras":
        return tensorflow_model.keras_call(m, name, args, kwargs, node)
    return stdlib.call(m, name, args, kwargs, node)


def _model(
    m: Machine, name: str, head: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
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
        return args[0] if args else m.unknown(node)
    if what == "context":
        return m.obj("context", node)
    if what == "object":
        return m.obj(name, node)
    if what == "calls":
        from tenure.check.calls import call as call_value

        return call_value(m, args[0], args[1:], {}, node) if args else m.unknown(node)
    fw = {"tensorflow": "tf", "torch": "torch", "functorch": "torch"}.get(head, "jax")
    if what in ("tensor", "fresh", "several", "alias", "pair"):
        return _tensor(m, name, fw, words, args, kwargs, node)
    if what == "maps":
        return _tree_map(m, args, node)
    if what == "leaves":
        return _leaves(m, args, node)
    if what == "host":
        _reads(m, given, node)
        return _host(m, args[0], node) if args else m.unknown(node)
    special = torch_model.CALLS.get(what) or tensorflow_model.CALLS.get(what)
    if special is not None:
        return special(m, name, words, args, kwargs, node)
    effects.escape(m, given, node)
    return m.unknown(node)


def _plain(m: Machine, name: str, given: list[Value], node: ast.AST) -> Value:
    last = name.rpartition(".")[2]
    if last == "empty_cache":
        return stdlib.call(m, "gc.collect", [], {}, node) or Num()
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


def _reads(m: Machine, values: list[Value], node: ast.AST) -> None:
    for value in values:
        for one in tensors(value):
            effects.use(m, one, node)


def _tensor(
    m: Machine, name: str, fw: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    given = [*args, *kwargs.values()]
    inputs = [one for value in given for one in tensors(value)]
    for value in given:
        if isinstance(value, (Seq, Map)):
            for one in tensors(value):
                one.state["taken"] = True
    for one in inputs:
        effects.use(m, one, node)
        if fw == "tf" and "keras" in one.flags:
            m.tell("keras symbolic", [("use", m.spot(node)), ("birth", one.born)], how=name)
    last = name.rpartition(".")[2]
    if fw == "torch" and isinstance(into := best(kwargs.get("out", NONE)), Tensor):
        effects.written(m, into, node, f"{last}(out=…)", [])
        return into
    if fw == "jax" and last in ("zeros", "ones", "empty", "full", "eye", "arange") and args:
        for part in inside(args[0]):
            effects.read_as_number(m, part, node, f"the shape of jnp.{last}")
    if words[0] == "fresh":
        made = m.tensor(fw, node, graph=False)
        if fw == "torch":
            made.varies = any(isinstance(v, Num) and v.varies for value in given for v in inside(value))
        if fw == "torch" and last in ("randn", "rand", "zeros", "ones", "empty", "full"):
            parts.has_rows(made, args)
        made.varies = made.varies or (fw != "torch" and retracing.sized(fw, name, args, kwargs))
        wants = kwargs.get("requires_grad")
        made.leaf = isinstance(wants, Const) and wants.value is True
        if made.leaf:
            made.state["asked"] = made.born
        return _placed(m, made, inputs, node)
    if words[0] == "alias":
        source = best(args[0]) if args else NONE
        store = (
            source.store
            if isinstance(source, Tensor)
            else source.state.get("store")
            if isinstance(source, (Obj, Seq))
            else None
        )
        if isinstance(source, Tensor) and source.fw == fw and fw == "jax" and last == "asarray":
            return source
        made = m.tensor(
            fw, node, store=store, parents=[source] if isinstance(source, Tensor) and source.fw == "torch" else []
        )
        if store is not None and isinstance(source, (Tensor, Obj)):
            store.state.setdefault("shared", m.spot(node))
        return made
    saves = words[words.index("saves") + 1] if "saves" in words else ""
    if fw == "torch" and inputs and autograd.flag(kwargs.get("inplace")):
        effects.written(m, inputs[0], node, f"{last}(inplace=True)", [])
        return result(m, fw, inputs, node, last, saves=saves, store=inputs[0].store)
    share = inputs[0].store if inputs and ("view" in words or "part" in words) else None
    made = result(m, fw, inputs, node, last, saves=saves, store=share, view="part" in words)
    made.varies = (fw != "torch" and retracing.sized(fw, name, args, kwargs)) or (made.varies and last not in _REDUCES)
    if words[0] == "several":
        group = m.seq("tuple", [], node)
        group.rest = made
        return group
    if words[0] == "pair":
        return m.seq("tuple", [m.unknown(node), m.unknown(node)], node)
    return made


# One number, or as many as there are columns, of however many rows.
_REDUCES = frozenset(["sum", "mean", "max", "min", "prod", "norm", "reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
                      "pad", "resize", "where", "dot", "vdot", "einsum", "matmul", "segment_sum"])  # fmt: skip


def _placed(m: Machine, made: Tensor, inputs: list[Tensor], node: ast.AST) -> Tensor:
    if made.fw == "tf":
        tensorflow_model.place(m, made, inputs, node)
    _scoped(m, made)
    return made


def _scoped(m: Machine, made: Tensor) -> None:
    scopes = m.world.get("scopes")
    if scopes:
        scopes[-1][1].append(made)


def result(
    m: Machine, fw: str | None, inputs: list[Tensor], node: ast.AST, op: str, *, saves: str = "", store: Any = None,
    view: bool = False, kept: list[Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """The tensor that an operation makes of others."""
    fw = fw or "torch"
    made = m.tensor(fw, node, op=op, parents=inputs, store=store, view=view)
    for one in inputs:
        if one.trace is not None and one.trace in m.traces and made.trace is None:
            made.trace = one.trace
        if "keras" in one.flags:
            made.flags |= {"keras"}
    if fw == "torch":
        _mixed_with_inference(m, made, inputs, node)
        autograd.save(m, made, kept if kept is not None else inputs, op, saves)
    return _placed(m, made, inputs, node)


def _mixed_with_inference(m: Machine, made: Tensor, inputs: list[Tensor], node: ast.AST) -> None:
    if m.grad[-1] != "grad" or not made.graph:
        return
    for one in inputs:
        if "inference" in one.flags and any(o.graph or o.leaf for o in inputs if o is not one):
            m.tell("inference in autograd", [("use", m.spot(node)), ("birth", one.born)])


def _tree_map(m: Machine, args: list[Value], node: ast.AST) -> Value:
    from tenure.check.calls import call as call_value

    if len(args) < 2:
        return m.unknown(node)
    trees = args[1:]
    leaf = [next(iter(tensors(tree)), None) or m.unknown(node) for tree in trees]
    same = _copy_function(args[0])
    mapped = call_value(m, args[0], list(leaf), {}, node)
    if isinstance(mapped, Const) and len(trees) == 1:
        for one in tensors(trees[0])[:8]:
            if one is not leaf[0]:
                call_value(m, args[0], [one], {}, node)
    return _rebuilt(m, trees[0], mapped, node, same=same)


def _copy_function(function: Value) -> str:
    name = getattr(best(function), "name", "")
    return "alias" if name == "jax.numpy.asarray" else "new"


def _rebuilt(m: Machine, tree: Value, leaf: Value, node: ast.AST, *, same: str, depth: int = 0) -> Value:
    tree = best(tree)
    if isinstance(tree, Map) and depth < 4:
        made: Map = m.own(Map(m.spot(node)))
        made.attrs = {k: _rebuilt(m, v, leaf, node, same=same, depth=depth + 1) for k, v in tree.attrs.items()}
        made.rest = _rebuilt(m, tree.rest, leaf, node, same=same, depth=depth + 1) if tree.rest is not None else None
        return made
    if isinstance(tree, Seq) and depth < 4:
        copied = m.seq(tree.kind, [_rebuilt(m, v, leaf, node, same=same, depth=depth + 1) for v in tree.items], node)
        copied.rest = _rebuilt(m, tree.rest, leaf, node, same=same, depth=depth + 1) if tree.rest is not None else None
        return copied
    if isinstance(tree, Tensor):
        if same == "alias":
            return tree
        return effects.fresh(m, leaf, node) if isinstance(best(leaf), Tensor) else m.tensor("jax", node)
    return leaf if depth else m.unknown(node)


def _leaves(m: Machine, args: list[Value], node: ast.AST) -> Value:
    found: list[Value] = list(tensors(args[0])[:8]) if args else []
    made = m.seq("list", found, node)
    if not found or any(isinstance(t, Tensor) and t.fw is None for t in found):
        made.rest = m.unknown(node)
    return made


def _host(m: Machine, value: Value, node: ast.AST) -> Value:
    return m.tensor("np", node) if isinstance(best(value), Tensor) else transforms.concrete(m, value, "np", node)


def tensor_method(
    m: Machine, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of a tensor, or of a value that may be one."""
    if name == "backward":
        return torch_model.backward_call(m, owner, args, kwargs, node)
    if owner.fw == "torch" or (owner.fw is None and name in torch_model.TELLING):
        return torch_model.method(m, owner, name, args, kwargs, node)
    if owner.fw == "tf" or "variable" in owner.flags:
        return tensorflow_model.method(m, owner, name, args, kwargs, node)
    if owner.fw == "jax":
        return _jax_method(m, owner, name, args, kwargs, node)
    if owner.fw == "np":
        return _numpy_method(m, owner, name, args, kwargs, node)
    if name in ("numpy", "item", "tolist"):
        effects.read_as_number(m, owner, node, f".{name}()")
        return Num() if name != "numpy" else m.unknown(node)
    if name == "delete" and not args and m.world.get("jax"):
        if owner.store.state.get("ended") is None:
            effects.end(m, owner, "deleted", node)
        return NONE
    return _unknown_method(m, owner, name, args, kwargs, node)


_PASSING = frozenset(
    [
        "mean",
        "sum",
        "clone",
        "float",
        "double",
        "cpu",
        "cuda",
        "to",
        "squeeze",
        "view",
        "reshape",
        "unsqueeze",
        "div",
        "mul",
        "add",
        "sub",
        "neg",
        "contiguous",
        "half",
    ]
)


def _unknown_method(
    m: Machine, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    if name in torch_model.NUMBERS:
        return Num()
    effects.use(m, owner, node)
    if name in ("readinto", "recv_into", "readinto1"):
        for one in (best(arg) for arg in args):
            if isinstance(one, Obj) and one.kind == "buffer":
                autograd.written(m, one.state["store"], m.spot(node))
        return Num()
    if name == "state_dict" and not args:
        made_map: Map = m.own(Map(m.spot(node)))
        made_map.state["alias of"] = owner
        made_map.rest = m.unknown(node)
        return made_map
    if name == "load_state_dict":
        for arg in args[:1]:
            for one in inside(arg):
                if isinstance(one, Map) and one.state.get("alias of") is not None:
                    m.put(one.state, "loaded", m.spot(node))
                    one.state["loaded at"] = m.clock
        return NONE
    if name == "run_in_executor" and len(args) > 1:
        stdlib.run_in_thread(m, args[1], args[2:], node)
        return m.unknown(node)
    if name == "step":
        m.world.setdefault("step clocks", []).append(m.clock)
    effects.escape(m, [*args, *kwargs.values()], node)
    made = m.unknown(node)
    if name in _PASSING and owner.node is not None:
        made.node = Node(name, made.born, (owner.node,), m.turn())
    elif name in ("squeeze", "view", "reshape", "unsqueeze"):
        made.flags = owner.flags & {"worker"}
    return made


def _jax_method(
    m: Machine, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    if name == "delete":
        effects.end(m, owner, "deleted", node)
        return NONE
    if name in ("is_deleted", "block_until_ready"):
        return owner if name != "is_deleted" else Num()
    if name in ("item", "tolist", "__float__"):
        effects.read_as_number(m, owner, node, f".{name}()")
        return Num()
    effects.use(m, owner, node)
    _reads(m, [*args, *kwargs.values()], node)
    made = m.tensor("jax", node, parents=[owner])
    made.trace = owner.trace or made.trace
    return made


def _numpy_method(
    m: Machine, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    if name in ("item", "tolist", "argmax", "argmin"):
        return Num()
    if name in ("fill", "sort", "put", "partition", "resize"):
        autograd.written(m, owner.store, m.spot(node))
        return NONE
    view = name in ("reshape", "view", "transpose", "ravel", "squeeze", "swapaxes")
    made = m.tensor("np", node, store=owner.store if view else None, view=owner.view and view)
    parts.small_part(made, owner)
    return made


def object_attribute(m: Machine, owner: Obj, name: str, node: ast.AST) -> Value:
    """An attribute of a framework's object."""
    found = torch_objects.object_attribute(m, owner, name, node)
    if found is None:
        found = tensorflow_model.object_attribute(m, owner, name, node)
    return found if found is not None else m.unknown(node)


def object_method(
    m: Machine, owner: Obj, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value | None:
    """A method of a framework's object; None if nothing is known of it."""
    found = torch_objects.object_method(m, owner, name, args, kwargs, node)
    if found is None:
        found = tensorflow_model.object_method(m, owner, name, args, kwargs, node)
    if found is None:
        found = stdlib.object_method(m, owner, name, args, kwargs, node)
    return found


def call_module(
    m: Machine, owner: Obj, found: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    """Call a module or layer of the checked code."""
    from tenure.check.calls import call as call_value

    bound = (
        found.bind(owner)
        if isinstance(found, Func)
        else effects.bind_wrapped(m, found, owner, node)
        if isinstance(found, Wrapped)
        else found
    )
    if owner.family.startswith("keras") and isinstance(found, Func) and found.name == "call":
        symbolic = any("keras" in t.flags for arg in args for t in tensors(arg))
        trace = Trace("keras", f"{owner.kind}.call", "tf", m.spot(node), concrete=not symbolic)
        trace.framework = "keras"
        with tracing(m, trace):
            inner = [transforms.symbol(m, arg, trace, node) if isinstance(best(arg), Tensor) else arg for arg in args]
            for one in inner:
                if isinstance(one, Tensor):
                    one.fw = "tf"
            made = call_value(m, bound, inner, kwargs, node)
        value = transforms.concrete(m, made, "tf", node)
        for one in tensors(value):
            one.flags = one.flags | {"keras"} if symbolic else one.flags
        return value
    made = call_value(m, bound, args, kwargs, node)
    torch_model.run_hooks(m, owner, args, made, node)
    return made


def call_framework_object(m: Machine, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call an object of a framework's class."""
    made = torch_model.call_object(m, owner, args, kwargs, node)
    if made is None:
        made = tensorflow_model.call_object(m, owner, args, kwargs, node)
    if made is None:
        effects.escape(m, [*args, *kwargs.values()], node)
        made = m.unknown(node)
    return made


def unknown_call(m: Machine, function: Tensor, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """Call something of which nothing is known."""
    for value in [*args, *kwargs.values()]:
        one = best(value)
        if isinstance(one, (Func, Wrapped)):
            m.world.setdefault("handed over", []).append(one)
    effects.escape(m, [*args, *kwargs.values()], node)
    return m.unknown(node)


__all__ = ["Class", "call", "result"]
