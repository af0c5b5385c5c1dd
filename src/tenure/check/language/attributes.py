"""Attributes that are read: of imported modules, objects, classes and tensors."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Class, Func, Map, Num, Obj, Options, Ref, Seq, Tensor, Value, Wrapped
from tenure.check.language import classes, objects
from tenure.check.language.imports import canonical
from tenure.check.lifetimes import container_reads, emptied_containers, escapes, graphs, retention, tensor_slices, uses

VIEWS = frozenset(
    [
        "view",
        "transpose",
        "t",
        "permute",
        "squeeze",
        "unsqueeze",
        "expand",
        "expand_as",
        "narrow",
        "select",
        "chunk",
        "split",
        "unbind",
        "detach",
        "flatten",
        "reshape",
        "swapaxes",
        "movedim",
        "view_as",
        "diagonal",
        "unfold",
        "T",
        "mT",
        "H",
        "real",
        "imag",
        "data",
        "tensor_split",
        "hsplit",
        "vsplit",
        "ravel",
    ]
)


def ref_attribute(m: Interpreter, owner: Ref, name: str, node: ast.AST) -> Value:
    """An attribute of something imported."""
    if owner.name == "super":
        me = m.frame.names.get("self")
        if isinstance(me, Obj) and me.cls is not None:
            for base in (_defining(me.cls, m.frame.node) or me.cls).bases:
                if isinstance(base, Class) and isinstance(found := base.find(name), Func):
                    return found.bind(me)
            if isinstance(inner := me.attrs.get("<container>"), (Seq, Map)):
                return m.own(Wrapped("method", inner, m.spot(node), Options(name=name)))  # type: ignore[no-any-return]
        return m.unknown(node)
    if owner.name.startswith("builtins."):
        return m.unknown(node)
    return Ref(canonical(f"{owner.name}.{name}"))


def _defining(cls: Class, function: ast.AST | None) -> Class | None:
    """The class in whose body a method is defined: this one, or one that it inherits from."""
    for value in cls.attrs.values():
        one: Value = value
        while isinstance(one, Wrapped):
            one = one.inner
        if isinstance(one, Func) and one.node is function:
            return cls
    inherited = (_defining(base, function) for base in cls.bases if isinstance(base, Class) and base is not cls)
    return next((found for found in inherited if found is not None), None)


_PLAIN = frozenset(
    [
        "shape",
        "dtype",
        "device",
        "ndim",
        "size",
        "requires_grad",
        "is_leaf",
        "name",
        "itemsize",
        "nbytes",
        "layout",
        "is_cuda",
        "sharding",
        "is_sparse",
    ]
)


def tensor_attribute(m: Interpreter, owner: Tensor, name: str, node: ast.AST) -> Value:
    """`tensor.name`, read."""
    if owner.fw is None:
        made = m.unknown_of([owner], node)
        if name == "grad":
            made.flags = frozenset({"grad"})
        return made
    if name in _PLAIN:
        return Num(varies=owner.varies and name in ("shape", "size"))
    if name == "grad":
        return gradient(m, owner, node)
    if name in ("grad_fn", "graph", "op", "at", "sharding"):
        return owner if name == "at" else m.unknown(node)
    if name in VIEWS:
        made = m.tensor(owner.fw, node, op=name, parents=[owner], store=owner.store)
        made.view = owner.view
        made.trace = owner.trace or made.trace
        tensor_slices.small_part(made, owner)
        if name == "data":
            if owner.node is not None:
                owner.node.state.cut = True
            made.graph, made.node, made.leaf = False, None, False
            made.flags |= {"data"} | (owner.flags & {"any parameter"})
        return made
    if owner.fw == "tf":
        found = m.tensor_attribute(owner, name, node)
        return found if found is not None else m.unknown(node)
    if name in ("values", "indices") and owner.fw == "torch":
        return m.tensor("torch", node, op=name, parents=[owner])
    return m.unknown(node)


def gradient(m: Interpreter, owner: Tensor, node: ast.AST) -> Value:
    """`tensor.grad`."""
    own = owner.state.grad_value
    if own is not None:
        return own
    if owner.fw == "torch" and owner.graph and not owner.leaf and owner.state.asked and not owner.state.retains:
        m.add_fact(facts.GradientOfNonLeaf(use=m.spot(node), birth=owner.born, end=owner.state.asked))
    if m.world.created_graphs:
        graphs.gradient_with_graph(m, owner)
    made: Tensor = m.own(Tensor("torch", m.spot(node)))
    made.flags = frozenset({"grad"})
    module: Any = owner.state.owner
    unfilled = owner.fw == "torch" and owner.graph and not owner.leaf and not owner.state.retains
    if unfilled and owner.node is not None:
        seen = bool(owner.node.state.differentiated) and m.world.script
        if seen or (node in m.world.leaf_gradients and _of_last_turn(m, owner)):
            made.state.unfilled = owner
    elif owner.leaf and m.loops:
        m.world.leaf_gradients.add(node)
    reset = owner.state.reset or (module.state.grads_reset if isinstance(module, Obj) else None)
    if reset is not None:
        made.state.reset = reset
    return made


def _of_last_turn(m: Interpreter, owner: Tensor) -> bool:
    """Whether the last iteration computed it, in a loop with backward passes that began with a leaf in its place."""
    turns = dict(owner.node.turn) if owner.node is not None else {}
    earlier = any(turns.get(loop.uid, loop.turn) < loop.turn for loop in m.loops)
    return earlier and not owner.state.alternative and m.world.backward_in_loop is not None


_PAIR = ("values", "indices")  # of what `max`, `sort` and `topk` return


def attribute(m: Interpreter, owner: Value, name: str, node: ast.AST) -> Value:
    """`owner.name`, read."""
    owner = uses.chosen(owner)
    if isinstance(owner, Ref):
        return ref_attribute(m, owner, name, node)
    if isinstance(owner, Obj):
        return object_attribute(m, owner, name, node)
    if isinstance(owner, Class):
        found = owner.find(name)
        if isinstance(found, Func) and classes.is_class_method(found):
            return found.bind(owner)
        return found if found is not None else m.unknown(node)
    if isinstance(owner, Tensor):
        return tensor_attribute(m, owner, name, node)
    if isinstance(owner, Func) and name in m.world.function_attributes.get(owner.node, {}):
        return m.world.function_attributes[owner.node][name]
    if isinstance(owner, Wrapped) and name == "__wrapped__":
        return owner.inner
    if isinstance(owner, Seq) and name in _PAIR and len(owner.items) == 2:
        return owner.items[_PAIR.index(name)]
    if (
        isinstance(owner, (Seq, Map))
        and name in emptied_containers.TAKING
        and not (isinstance(owner, Map) and name == "get")
    ):
        retention.drained(m, owner)  # whoever has the method may call it
    if isinstance(owner, (Seq, Map)) and name in container_reads.ADDING:
        return m.own(Wrapped("method", owner, m.spot(node), Options(name=name)))  # type: ignore[no-any-return]
    if isinstance(owner, (Seq, Map)):
        escapes.escape(m, [owner])  # the field of a named tuple, or a method
    return m.unknown(node)


def object_attribute(m: Interpreter, owner: Obj, name: str, node: ast.AST) -> Value:
    """An attribute of an object: its own, or its class's, methods bound to it."""
    found = owner.attrs.get(name)
    if found is not None:
        objects.attribute_read(m, owner, name, found, node)
        return found
    if owner.cls is not None:
        found = owner.cls.find(name)
        if isinstance(found, Func):
            if classes.is_property(found):
                return m.call_function(found.bind(owner), [], {}, node)
            if classes.is_class_method(found):
                return found.bind(owner.cls)
            return found if classes.is_static(found) else found.bind(owner)
        if isinstance(found, Wrapped):
            return objects.bind_wrapped(m, found, owner, node)
        if found is not None:
            return found
    if name == "data" and "<container>" in owner.attrs:
        return owner.attrs["<container>"]  # as `UserDict` and `UserList` have it
    return m.object_attribute(owner, name, node)
