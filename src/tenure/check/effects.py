"""What statements and operators do to tensors and to what holds them."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import autograd, keeping, parts
from tenure.check.iteration import element, fresh, loop_kind, next_element, turns, while_kind
from tenure.check.keeping import after_loop, cached_call, drained, stored
from tenure.check.machine import Frame, Machine
from tenure.check.objects import (
    attribute_read,
    attribute_set,
    bind_wrapped,
    dataclass_made,
    framework_attribute,
    framework_made,
    is_property,
    is_static,
    leaf_replaced,
    merge_map,
    object_item,
    object_item_set,
    params_method,
    tensor_attribute_set,
)  # fmt: skip
from tenure.check.parts import index
from tenure.check.using import (
    compared,
    donated,
    end,
    escaped,
    read_as_bool,
    read_as_number,
    read_as_text,
    use,
)  # fmt: skip
from tenure.check.values import (
    NONE,
    Class,
    Const,
    Either,
    Func,
    Map,
    Maybe,
    Node,
    Num,
    Obj,
    Ref,
    Seq,
    Spot,
    Tensor,
    Value,
    Wrapped,
    best,
    inside,
    join,
    tensors,
)  # fmt: skip

__all__ = [
    "after_loop", "attribute_read", "attribute_set", "bind_wrapped", "cached_call", "compared", "dataclass_made", "donated",
    "drained", "element", "end", "escaped", "framework_attribute", "framework_made", "fresh", "index", "is_property", "is_static",
    "leaf_replaced", "loop_kind", "merge_map", "next_element", "object_item", "object_item_set", "params_method", "read_as_bool",
    "read_as_number", "read_as_text", "stored", "tensor_attribute_set", "turns", "use", "while_kind",
]  # fmt: skip

_OPS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.MatMult: "matmul",
    ast.FloorDiv: "div", ast.Mod: "div",
}  # fmt: skip
_VIEWS = frozenset(
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


def operate(m: Machine, left: Value, right: Value, op: type, node: ast.AST) -> Value:
    """`left op right`."""
    from tenure.check.expressions import fold

    one, other = best(left), best(right)
    plain = fold(one, other, op)
    if plain is not None:
        return plain
    if isinstance(one, Seq) and op in (ast.Add, ast.Mult, ast.BitOr):
        made = m.seq(one.kind, list(one.items), node)
        made.rest = one.rest
        made.state.update(one.state)
        if isinstance(other, Seq):
            made.items.extend(other.items[:12])
            made.rest = other.rest if made.rest is None else made.rest
        return made
    found = [v for v in (one, other) if isinstance(v, Tensor)]
    for v in found:
        use(m, v, node)
    if not found:
        return m.unknown(node)
    known = [v for v in found if v.fw is not None]
    name = _OPS.get(op, "div")
    if not known or (known[0].fw == "np" and len(found) > len(known)):
        made_unknown = m.unknown(node)
        if name in ("add", "sub", "mul", "div"):
            made_unknown.node = Node(name, made_unknown.born, tuple(_node_of(v) for v in found), m.turn())
        return made_unknown
    from tenure.check import frameworks

    fw = "torch" if any(v.fw == "torch" for v in known) else next((v.fw for v in known if v.fw != "np"), "np")
    saves = "nothing" if name in ("add", "sub") or (len(found) < 2 and name in ("mul", "div")) else ""
    inputs = found
    if name in ("mul", "matmul") and len(found) == 2:
        inputs = [
            a
            for a, b in ((one, other), (other, one))
            if isinstance(a, Tensor) and isinstance(b, Tensor) and (b.graph or b.leaf)
        ]
        saves = "inputs" if inputs else "nothing"
    return frameworks.result(m, fw, found, node, name, saves=saves, kept=inputs)


def _node_of(tensor: Tensor) -> Node:
    if tensor.node is None:
        tensor.node = Node("unknown", tensor.born, (), ())
        tensor.node.state["unknown"] = True
    return tensor.node


def augmented(m: Machine, left: Value, right: Value, node: ast.AugAssign) -> Value:
    """`left op= right`: in place for tensors."""
    one = best(left)
    if isinstance(one, Tensor) and "grad" in one.flags:
        _gradient_added(m, one.state.get("reset"), node)
    elif isinstance(left, Either) and isinstance(node.target, ast.Attribute) and node.target.attr == "grad":
        from tenure.check.expressions import evaluate

        owner = best(evaluate(m, node.target.value))
        if any(isinstance(o, Const) and o.value is None for o in left.options) and isinstance(owner, Tensor):
            reset = owner.state.get("reset")
            _gradient_added(m, reset.spot if isinstance(reset, Maybe) else reset, node)
    if isinstance(one, Seq) and isinstance(best(right), Seq):
        for value in best(right).items:  # type: ignore[attr-defined]
            stored(m, one, NONE, value, node)
            if len(one.items) < 12:
                one.items.append(value)
        return one
    if isinstance(one, Obj) and isinstance(best(right), Tensor):
        return one
    if isinstance(one, Tensor) and one.fw == "torch":
        written(m, one, node, f"{_OPS.get(type(node.op), 'op')}_", [])
        made = operate(m, one, right, type(node.op), node)
        if isinstance(made, Tensor):
            made.store = one.store
            made.flags |= one.flags & {"inference", "expanded"}
        return made
    if isinstance(one, Tensor) and one.fw == "np":
        use(m, one, node)
        autograd.written(m, one.store, m.spot(node))
        return one
    value = operate(m, left, right, type(node.op), node)
    if isinstance(node.op, (ast.Add, ast.Sub)) and m.loops:
        for addend in tensors(right):
            if addend.fw in (None, "torch"):
                written_ = keeping.expressions(m, node, right)
                m.held.append(
                    keeping.Held(
                        "sum", addend, _slot(m, node.target), m.spot(node), _sum_loop(m, node.target), written_
                    )
                )
    return value


def _slot(m: Machine, target: ast.expr) -> Any:
    if isinstance(target, ast.Attribute):
        from tenure.check.expressions import evaluate

        return best(evaluate(m, target.value))
    return None


def _sum_loop(m: Machine, target: ast.expr) -> Any:
    """The loop that the sum outlives: for an attribute, one that the object outlives."""
    if isinstance(target, ast.Attribute):
        return keeping.outlived(m, _slot(m, target))
    return m.loops[-1]


def _gradient_added(m: Machine, reset: Any, node: ast.AugAssign) -> None:
    if isinstance(reset, Spot):
        m.tell("gradient reset", [("use", m.spot(node)), ("end", reset)], how="+=")


def written(m: Machine, tensor: Tensor, node: ast.AST, how: str, values: list[Tensor]) -> None:
    """A tensor is changed in place."""
    use(m, tensor, node)
    if tensor.fw not in ("torch", "np", None):
        return
    if "expanded" in tensor.flags and tensor.fw == "torch":
        m.tell(
            "expanded written",
            [("use", m.spot(node)), ("birth", tensor.store.state.get("expanded", tensor.born))],
            how=how,
        )
    if "inference" in tensor.flags and m.grad[-1] != "inference" and tensor.fw == "torch":
        m.tell("inference changed", [("use", m.spot(node)), ("birth", tensor.born)])
    elif (
        (tensor.leaf or tensor.state.get("of leaf"))
        and m.grad[-1] == "grad"
        and tensor.fw == "torch"
        and "data" not in tensor.flags
    ):
        m.tell("leaf changed", [("use", m.spot(node)), ("birth", tensor.born)])
    autograd.written(m, tensor.store, m.spot(node), data="data" in tensor.flags)
    shared_write(m, tensor, node)
    # The tensor now depends on what was written into it.
    if m.grad[-1] == "grad" and any(v.graph or v.leaf for v in values) and tensor.fw == "torch":
        tensor.graph = True
        above = tuple(v.node for v in (tensor, *values) if v.node is not None)
        tensor.node = Node("add", m.spot(node), above, m.turn())


def shared_write(m: Machine, tensor: Tensor, node: ast.AST) -> None:
    """A write in a thread to what other threads write too."""
    thread = m.world.get("thread")
    if thread is not None and not m.world.get("locks") and tensor.state.get("local") is not thread:
        thread.setdefault("writes", []).append((tensor.store, m.spot(node)))


def ref_attribute(m: Machine, owner: Ref, name: str, node: ast.AST) -> Value:
    """An attribute of something imported."""
    from tenure.check.imports import canonical

    if owner.name == "super":
        me = m.frame.names.get("self")
        if isinstance(me, Obj) and me.cls is not None:
            for base in me.cls.bases:
                if isinstance(base, Class) and isinstance(found := base.find(name), Func):
                    return found.bind(me)
        return m.unknown(node)
    if owner.name.startswith("builtins."):
        return m.unknown(node)
    return Ref(canonical(f"{owner.name}.{name}"))


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


def tensor_attribute(m: Machine, owner: Tensor, name: str, node: ast.AST) -> Value:
    """`tensor.name`, read."""
    if owner.fw is None:
        made = m.unknown(node)
        if name == "grad":
            made.flags = frozenset({"grad"})
        return made
    if name in _PLAIN:
        return Num(varies=owner.varies and name in ("shape", "size"))
    if name == "grad":
        return gradient(m, owner, node)
    if name in ("grad_fn", "graph", "op", "at", "sharding"):
        return owner if name == "at" else m.unknown(node)
    if name in _VIEWS:
        made = m.tensor(owner.fw, node, op=name, parents=[owner], store=owner.store)
        made.view = owner.view
        made.trace = owner.trace or made.trace
        parts.small_part(made, owner)
        if name == "data":
            made.graph, made.node, made.leaf = False, None, False
            made.flags |= {"data"}
        return made
    if name in ("values", "indices") and owner.fw == "torch":
        return m.tensor("torch", node, op=name, parents=[owner])
    return m.unknown(node)


def gradient(m: Machine, owner: Tensor, node: ast.AST) -> Value:
    """`tensor.grad`."""
    own = owner.state.get("grad value")
    if own is not None:
        return own  # type: ignore[no-any-return]
    if (
        owner.fw == "torch"
        and owner.graph
        and not owner.leaf
        and owner.state.get("asked")
        and not owner.state.get("retains")
    ):
        m.tell(
            "gradient of non-leaf", [("use", m.spot(node)), ("birth", owner.born), ("end", owner.state.get("asked"))]
        )
    made: Tensor = m.own(Tensor("torch", m.spot(node)))
    made.flags = frozenset({"grad"})
    made.state["of"] = owner
    module: Any = owner.state.get("owner")
    unfilled = owner.graph and not owner.leaf and not owner.state.get("retains") and m.world.get("script")
    if owner.fw == "torch" and unfilled and owner.node is not None and owner.node.state.get("differentiated"):
        made.state["unfilled"] = owner
    reset = owner.state.get("reset") or (module.state.get("grads reset") if isinstance(module, Obj) else None)
    if reset is not None:
        made.state["reset"] = reset
    return made


def discarded(m: Machine, value: Value, node: ast.AST) -> None:
    """A call whose result nobody takes."""
    value = best(value)
    if isinstance(value, Obj) and value.kind == "hook handle":
        value.state["dropped"] = True
    elif isinstance(value, Obj) and value.kind == "tensor array" and value.state.get("write of") is not None:
        m.tell("write discarded", [("use", m.spot(node)), ("birth", value.state["write of"].born)])


def guards(m: Machine, test: ast.expr) -> set[str]:
    """What a condition asks for, by the names in it."""
    found: set[str] = set()
    for one in ast.walk(test):
        name = one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else ""
        if name in ("is_grad_enabled", "requires_grad"):
            found.add("grad")
        elif name in ("is_compiling", "Tracer", "is_tracing", "executing_eagerly", "is_exporting", "inside_function", "is_fx_tracing",
                      "is_keras_tensor", "is_symbolic_tensor", "is_concrete", "trace_state_clean", "is_dynamo_compiling"):  # fmt: skip
            found.add("tracing")
    return found


def returned(m: Machine, value: Value, node: ast.AST) -> None:
    """A function gives a value back."""
    one = best(value)
    if isinstance(one, (Tensor, Seq, Map)):
        for part in inside(one):
            if isinstance(part, (Tensor, Seq, Map)):
                part.state["returned"] = True
    if isinstance(one, Wrapped) and one.kind == "trace" and one.options["framework"] == "tf":
        inner = one.inner
        if isinstance(inner, Func) and isinstance(inner.bound, Obj):
            owner = inner.bound
            here = owner.born.function == m.frame.function
            if here and not owner.state.get("stored") and m.frame.names.get("self") is not owner:
                one.state["orphan"] = (owner.born, m.spot(node))


def function_ended(m: Machine, frame: Frame, function: Func) -> None:
    """A function's names are gone."""


def deleted(m: Machine, target: ast.expr) -> None:
    """`del target`."""
    if isinstance(target, ast.Name):
        value = m.frame.names.get(target.id)
        if value is not None:
            m.world.setdefault("deleted", []).append((target.id, value, m.spot(target), m.frame, m.clock))


def decorated(m: Machine, decorator: Value, value: Value, node: ast.expr) -> Value:
    """What a decorator makes of a function."""
    made = _decorated(m, decorator, value, node)
    if isinstance(made, Wrapped) and made.kind == "lru_cache" and made is not value:
        m.world.setdefault("caches", []).append(made)
    return made


def _decorated(m: Machine, decorator: Value, value: Value, node: ast.expr) -> Value:
    from tenure.check import calls

    decorator = best(decorator)
    if isinstance(decorator, Ref):
        if decorator.name in ("builtins.property", "builtins.staticmethod"):
            return value
        if decorator.name == "builtins.classmethod":
            return value
        made = calls.call_ref(m, decorator, [value], {}, node)
        return made if isinstance(made, (Wrapped, Func)) else value
    if isinstance(decorator, Wrapped):
        made = calls.call(m, decorator, [value], {}, node)
        return made if isinstance(made, (Wrapped, Func)) else value
    if isinstance(decorator, Obj) and decorator.kind == "lru_cache":
        return m.own(Wrapped("lru_cache", value, m.spot(node), dict(decorator.state)))  # type: ignore[no-any-return]
    if isinstance(decorator, Obj) and decorator.kind == "grad_mode":
        return Wrapped("grad_mode", value, m.spot(node), {"mode": decorator.state["mode"]})
    return value


def escape(m: Machine, values: list[Value], node: ast.AST | None = None) -> None:
    """Values go where they cannot be followed."""
    for value in values:
        for one in tensors(value):
            if node is not None and one.state.get("released") is None:
                use(m, one, node)
            for part in autograd.closure(one.node) if one.node is not None else ():
                part.state["escaped"] = True
            one.state["escaped"] = True
        one_value = best(value)
        if isinstance(one_value, (Seq, Map, Obj)):
            one_value.state["escaped"] = True


def or_none(value: Value) -> Value:
    """The value, or None."""
    return join(value, NONE)


def retraced(m: Machine, wrapped: Wrapped, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> None:
    """Look at a call of a traced function, whether it traces anew each time."""
    from tenure.check import retracing

    retracing.called(m, wrapped, args, kwargs, node)
