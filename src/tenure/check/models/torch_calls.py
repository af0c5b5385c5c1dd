"""torch: modules, optimizers, hooks, gradients, storages, and the methods of tensors."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tenure.check import abstract_values, facts
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import (
    NONE,
    Const,
    Func,
    Map,
    Node,
    Num,
    Obj,
    Options,
    Ref,
    Seq,
    Tensor,
    Trace,
    Value,
    Wrapped,
)
from tenure.check.language import attributes, iteration
from tenure.check.language.classes import is_sequential
from tenure.check.lifetimes import graphs, storages, tensor_slices, uses, writes
from tenure.check.lifetimes.graphs import thawed
from tenure.check.lifetimes.traces import tracing
from tenure.check.models import devices, torch_hooks
from tenure.check.models.symbols import symbol
from tenure.check.value_queries import best, inside, tensors

# Modules without weights: their result carries a graph only if their input does.
_PLAIN_MODULES = (
    "ReLU",
    "GELU",
    "SiLU",
    "Tanh",
    "Sigmoid",
    "Softmax",
    "LogSoftmax",
    "Dropout",
    "Flatten",
    "Identity",
    "Pool",
    "Loss",
    "Upsample",
    "Pad",
    "ELU",
    "Softplus",
    "Unflatten",
    "Fold",
    "Shuffle",
    "Mish",
    "Hard",
    "Similarity",
)
_SAVE_OUTPUT = ("ReLU", "Tanh", "Sigmoid", "Softmax", "ELU")
_RECURRENT = ("RNN", "LSTM", "GRU")
# Methods that only a torch tensor has: they show what an unknown value is.
TELLING = frozenset(["requires_grad_", "retain_grad", "register_hook", "untyped_storage", "detach_", "data_ptr"])
NUMBERS = frozenset(
    [
        "item",
        "tolist",
        "numel",
        "dim",
        "nelement",
        "element_size",
        "size",
        "stride",
        "is_contiguous",
        "is_floating_point",
        "get_device",
        "__len__",
        "is_shared",
        "ndimension",
        "storage_offset",
    ]
)
_FRESH = frozenset(
    ["clone", "contiguous", "cpu", "cuda", "to", "float", "double", "half", "bfloat16", "long", "int", "bool", "type"]
)
_DETACHED = frozenset(
    [
        "argmax",
        "argmin",
        "argsort",
        "eq",
        "ne",
        "gt",
        "lt",
        "ge",
        "le",
        "isnan",
        "isinf",
        "isfinite",
        "sign",
        "bernoulli",
        "nonzero",
        "any",
        "all",
        "bincount",
        "new_zeros",
        "new_ones",
        "new_tensor",
        "new_full",
        "new_empty",
        "randint_like",
    ]
)
_PAIRS = frozenset(["max", "min", "sort", "topk", "median", "mode", "kthvalue", "unique", "cummax"])
_SEVERAL = frozenset(["chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit"])


def backward_call(m: Interpreter, owner: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    """`loss.backward()`; or `accelerator.backward(loss)`, of anything that has such a method."""
    if isinstance(owner, Tensor) and owner.fw not in (None, "torch"):
        return NONE
    target: Value = owner
    first = best(args[0]) if args else None
    if (
        isinstance(owner, Tensor)
        and owner.fw is None
        and isinstance(first, Tensor)
        and "gradient" not in kwargs
        and owner.node is None
        and not (_computed(owner) and not first.graph)
    ):
        target = args[0]  # engine.backward(loss)
    named = dict(kwargs)
    for name, value in zip(
        ("gradient", "retain_graph", "create_graph"), args if target is owner else args[1:], strict=False
    ):
        named.setdefault(name, value)
    graphs.backward(m, target, node, named, inputs=None)
    if m.loops:
        m.world.backward_in_loop = m.world.backward_in_loop or m.spot(node)
    for module in m.world.reset_modules:
        m.set_state(module.state, "grads_reset", None)
        known = module.state.parameter
        if isinstance(known, Tensor):
            m.set_state(known.state, "reset", None)
            if known.state.grad_value is NONE:
                m.set_state(known.state, "grad_value", None)
    if graphs.flag(named.get("create_graph")):
        m.world.created_graphs.append((m.spot(node), bool(m.loops), graphs.owners(m, target)))
    return NONE


def _computed(value: Tensor) -> bool:
    """Whether an unknown value is the result of a function, not an engine that was constructed or given."""
    node = value.born.node
    called = node.func if isinstance(node, ast.Call) else None
    name = getattr(called, "attr", getattr(called, "id", ""))
    return called is not None and not name[:1].isupper()


def _differentiates(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    outputs = args[0] if args else kwargs.get("outputs", NONE)
    wrt = args[1] if len(args) > 1 else kwargs.get("inputs", NONE)
    create = graphs.flag(kwargs.get("create_graph"))
    graphs.backward(m, outputs, node, kwargs, inputs=wrt)
    made = m.tensor("torch", node, op="grad", parents=tensors(outputs) if create else [], graph=create)
    if made.node is not None:
        made.node.saves = True
    group = m.seq("tuple", [], node)
    count = len(best(wrt).items) if isinstance(best(wrt), Seq) else 1  # type: ignore[attr-defined]
    group.items = [made] + [iteration.fresh(m, made, node) for _ in range(count - 1)]
    for one in group.items:
        if isinstance(one, Tensor) and one.node is not None:
            one.node.saves = True
            one.node.parents = made.node.parents if made.node is not None else ()
    return group


def _backward(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    return backward_call(m, args[0], [], kwargs, node) if args else NONE


def _grad_mode(
    m: Interpreter, name: str, words: tuple[str, ...], args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    first = best(args[0]) if args else None
    mode = words[1]
    if isinstance(first, (Func, Wrapped)):
        return Wrapped("grad_mode", first, m.spot(node), Options(mode=mode))
    if mode == "inference" and isinstance(first, Const) and first.value is False:
        mode = "grad"
    if mode == "unknown":
        mode = {True: "grad", False: "no_grad"}.get(first.value, "maybe") if isinstance(first, Const) else "maybe"
        made = m.obj("grad_mode", node)
        made.state.mode, made.state.before = mode, m.grad[-1]
        m.grad[-1] = mode if not m.conditions else "maybe"  # it holds from here on, without `with`, too
        return made
    made = m.obj("grad_mode", node)
    made.state.mode = mode
    return made


def _module(m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    if name.endswith("functional_call"):
        inputs = [t for value in args[1:] for t in tensors(value)]
        owner = best(args[0]) if args else NONE
        if isinstance(owner, Obj) and owner.cls is not None and m.traces and len(args) > 2:
            given = best(args[2])  # what the module stores on the way is seen
            inside_ = m.call(owner, list(given.items) if isinstance(given, Seq) else [given], {}, node)
            inputs += tensors(inside_)
        made = m.tensor("torch", node, op="call", parents=inputs, graph=True)
        made.trace = next((t.trace for t in inputs if t.trace is not None), made.trace)
        return made
    made_obj = m.obj(name, node)
    made_obj.state.inplace = graphs.flag(kwargs.get("inplace"))
    children = list(args)
    if len(args) == 1 and isinstance(best(args[0]), Seq) and name.endswith(("Sequential", "ModuleList")):
        children = list(best(args[0]).items)  # type: ignore[attr-defined]
    if name.endswith(("Sequential", "ModuleList", "ModuleDict", "DataParallel", "DistributedDataParallel")):
        for number, child in enumerate(children):
            made_obj.attrs[str(number)] = child
    return made_obj


def _optimizer(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    if not name.rpartition(".")[2][:1].isupper():
        return m.unknown(node)
    made = m.obj("optimizer", node)
    params = args[0] if args else kwargs.get("params", NONE)
    made.state.modules = [v.state.of for v in inside(params) if isinstance(v, (Seq, Map)) and v.state.of is not None]
    made.state.tensors = [t for t in tensors(params) if t.leaf]
    for one in tensors(params):
        if one.fw == "torch" and one.graph and not one.leaf:
            m.add_fact(facts.GradientOfNonLeaf(use=m.spot(node), birth=one.born))
    m.world.optimizers.append(made)
    return made


def _parameter(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    made = m.tensor("torch", node, graph=False)
    wants = kwargs.get("requires_grad")
    made.leaf = not (isinstance(wants, Const) and wants.value is False)
    made.flags = frozenset({"param"})
    return made


def _loader(m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("loader", node)
    workers = kwargs.get("num_workers") if "collate_fn" not in kwargs else None  # who knows what that one makes
    made.state.workers = isinstance(workers, Const) and isinstance(workers.value, int) and workers.value > 0
    return made


def _saves_file(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    found = tensors(args[0]) if args else []
    for one in found:
        uses.use(m, one, node)
        # A file contains a buffer once: several parts of it, or those that a loop collected, may be all of it.
        alone = sum(other.store is one.store for other in found) == 1 and all(uid in m.loop_ids for uid in one.loops)
        if one.fw == "torch" and one.view and alone and "assumed" not in one.flags:
            m.add_fact(facts.ViewSaved(use=m.spot(node), birth=one.store.born))
    return NONE


def _exports(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    module = best(args[0]) if args else NONE
    trace = Trace("wrapper", name, "torch", m.spot(node))
    if isinstance(module, Obj):
        with tracing(m, trace):
            given = best(args[1]) if len(args) > 1 else NONE
            items = given.items if isinstance(given, Seq) else []
            m.call(module, [symbol(m, one, trace, node) for one in items], {}, node)
    return m.unknown(node)


def _compiles(
    m: Interpreter, name: str, words: Any, args: list[Value], kwargs: dict[str, Value], node: ast.AST
) -> Value:
    if not args:
        return Wrapped("partial", Ref(name), m.spot(node), Options(kwargs=kwargs))
    return Wrapped("compile", best(args[0]), m.spot(node))


CALLS: dict[str, Callable[..., Value]] = {
    "grad": _grad_mode,
    "differentiates": _differentiates,
    "backward": _backward,
    "module": _module,
    "optimizer": _optimizer,
    "parameter": _parameter,
    "loader": _loader,
    "saves_file": _saves_file,
    "exports": _exports,
    "compiles": _compiles,
    "fake_mode": lambda m, name, words, args, kwargs, node: m.obj("fake mode", node),
    "distribution": lambda m, name, words, args, kwargs, node: _distribution(m, name, args, kwargs, node),
    "loaded": lambda m, name, words, args, kwargs, node: m.unknown(node),
}


def _distribution(m: Interpreter, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
    made = m.obj("distribution", node)
    made.state.inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    return made


def call_object(m: Interpreter, owner: Obj, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value | None:
    """Call a module of torch."""
    own = is_sequential(owner)
    if not (own or owner.kind.startswith("torch.nn.")):
        return None
    last = owner.kind.rpartition(".")[2] if not own else "Sequential"
    children = list(owner.attrs.values())
    if own:  # its other attributes are no modules
        children = [one for key, one in owner.attrs.items() if key.isdigit()]
        if not children:
            return None
    if last in ("Sequential", "DataParallel", "DistributedDataParallel") and children:
        value = args[0] if args else m.unknown(node)
        for child in children:
            value = m.call(child, [value], {}, node)
        made_seq = value
        run_hooks(m, owner, args, made_seq, node)
        return made_seq
    storages.called(m, owner, node)
    inputs = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    for one in inputs:
        uses.use(m, one, node)
    if owner.state.inplace and inputs:
        writes.written(m, inputs[0], node, f"{last}(inplace=True)", [])
    weightless = any(part in last for part in _PLAIN_MODULES)
    recurrent = any(last.startswith(part) for part in _RECURRENT)
    saves = (
        "output"
        if any(part in last for part in _SAVE_OUTPUT)
        else "inputs"
        if not last.startswith(("Dropout", "Flatten"))
        else "nothing"
    )
    made = m.result("torch", inputs, node, last, saves=saves)
    if len(inputs) == 1:
        tensor_slices.same_rows(made, inputs[0])
    if not weightless and m.grad[-1] == "grad" and not owner.state.frozen:
        made.graph = True
        if (thread := m.world.thread) is not None:
            thread.graph = thread.graph or made.born
        for one in inputs:
            if "inference" in one.flags:
                m.add_fact(facts.InferenceInAutograd(use=m.spot(node), birth=one.born))
        if made.node is None:
            above = tuple(p.node for p in inputs if p.node is not None)
            made.node = Node(last, made.born, above, m.turn())
            if (begun := m.world.running_pass) is not None:
                begun.nodes.append(made.node)
        made.node.saves = True
        if recurrent or last.startswith(("Transformer", "Multihead")) or any(t.graph or t.leaf for t in inputs):
            graphs.save_parameters(m, made, owner)
        else:
            m.world.users.append((made.node, owner))
    run_hooks(m, owner, args, made, node)
    if recurrent:
        second = iteration.fresh(m, made, node)
        if isinstance(second, Tensor):
            second.node = made.node  # one step makes both
        state: Value = m.seq("tuple", [second, second], node) if last.startswith("LSTM") else second
        if last.endswith("Cell"):
            return state
        return m.seq("tuple", [made, state], node)
    if last.startswith("Multihead"):
        return m.seq("tuple", [made, iteration.fresh(m, made, node)], node)
    return made


def run_hooks(m: Interpreter, owner: Obj, args: list[Value], made: Value, node: ast.AST) -> None:
    """The forward hooks of a module see its inputs and its output."""
    torch_hooks.run(m, owner, args, made, node)


def method(
    m: Interpreter, owner: Tensor, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.Call
) -> Value:
    """A method of a torch tensor."""
    if name in ("item", "tolist", "numpy"):
        uses.read_as_number(m, owner, node, f".{name}()")
    if (
        "grad" in owner.flags
        and owner.state.reset is not None
        and not isinstance(owner.state.reset, abstract_values.Maybe)
    ):
        m.add_fact(facts.GradientReset(use=m.spot(node), end=owner.state.reset))
    if owner.state.unfilled is not None:
        uses.unfilled(m, owner, node)
    if name in NUMBERS:
        return Num(varies=owner.varies and name in ("size", "__len__"))
    if name == "data_ptr":
        return Num(of=owner)
    if name == "requires_grad_":
        off = args and isinstance(args[0], Const) and args[0].value is False
        owner.fw = "torch"
        if not off and "inference" in owner.flags and m.grad[-1] != "inference":
            m.add_fact(facts.InferenceChanged(use=m.spot(node), birth=owner.born))
        if off:
            thawed(m, owner, wanted=False)
        elif not owner.graph:
            owner.leaf = True
            owner.state.asked = m.spot(node)
            thawed(m, owner, wanted=True)
        return owner
    if name == "retain_grad":
        owner.state.retains = True
        return NONE
    if name == "register_hook":
        return torch_hooks.on_tensor(m, owner, args, node)
    if name in ("untyped_storage", "storage"):
        made_store = m.obj("torch storage", node)
        made_store.state.tensor = owner
        return made_store
    uses.use(m, owner, node)
    others = [t for value in (*args, *kwargs.values()) for t in tensors(value)]
    for one in others:
        uses.use(m, one, node)
    if name == "to" and devices.there(owner, args):
        return owner  # it is there already
    if name in ("detach", "detach_"):
        if owner.node is not None:
            at_once = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call)
            owner.node.state.cut = "at once" if at_once else True
        made = m.tensor("torch", node, op="detach", store=owner.store, graph=False)
        made.view, made.varies = owner.view, owner.varies
        made.trace = owner.trace
        tensor_slices.small_part(made, owner)
        tensor_slices.same_rows(made, owner)
        if name == "detach_":
            owner.graph, owner.node, owner.leaf = False, None, False
            return owner
        return made
    if name == "numpy":
        made = m.tensor("np", node, store=owner.store)
        made.view = owner.view
        tensor_slices.small_part(made, owner)
        tensor_slices.same_rows(made, owner)
        return made
    if name.endswith("_") and not name.startswith("_"):
        writes.written(m, owner, node, name, others)
        return owner
    if name in _DETACHED:
        return m.result("torch", [owner], node, name) if False else m.tensor("torch", node, graph=False)
    if name in _SEVERAL:
        part = m.result("torch", [owner], node, name, saves="nothing", store=owner.store, view=True)
        group = m.seq("tuple", [], node)
        group.rest = part
        if (
            args
            and isinstance(args[0], Const)
            and isinstance(args[0].value, int)
            and name == "chunk"
            and args[0].value < 6
        ):
            group.items, group.rest = [part, *(iteration.fresh(m, part, node) for _ in range(args[0].value - 1))], None
        return group
    view = name in attributes.VIEWS
    made = m.result("torch", [owner, *others], node, name, store=owner.store if view else None)
    made.trace = owner.trace or made.trace
    if view:
        made.view = owner.view or name in ("narrow", "select", "diagonal")
        if name == "narrow":
            made.state.small, made.state.base = True, owner
        made.flags |= owner.flags & {"param"}
        tensor_slices.small_part(made, owner)
        made.state.of_leaf = m.grad[-1] == "grad" and (owner.leaf or owner.state.of_leaf)
    if name in ("expand", "expand_as"):
        made.flags |= {"expanded"}
        made.store.state.expanded = made.born
    elif "expanded" in owner.flags and view:
        made.flags |= {"expanded"}
    if name in _PAIRS and (args or "dim" in kwargs) and name != "unique" and not others:
        return m.seq("tuple", [made, m.tensor("torch", node, graph=False)], node)
    if name in _FRESH and owner.leaf:
        made.state.asked = owner.state.asked
    devices.moved(owner, made, name, args)
    return made
