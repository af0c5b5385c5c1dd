"""At the end of the program: which of the things that were kept were kept by mistake."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check import autograd, cycles
from tenure.check.keeping import Held
from tenure.check.machine import Machine
from tenure.check.values import Class, Func, Map, Maybe, Obj, Ref, Seq, Spot, Tensor, Value, inside, options


def judge(m: Machine, roots: list[Value]) -> None:
    """Tell what is certain about all that was held."""
    for held in m.held:
        look = _LOOKS.get(held.kind)
        if look is not None:
            look(m, held)
    cycles.judge(m, roots)
    _same_buffers(m)
    _created_graphs(m)
    _graph_growth(m)
    _variables_in_traces(m)
    _caches(m)
    _threads(m)
    _never_reset(m)
    _still_held(m, roots)
    _temporary_functions(m)


def _drained(holder: Any) -> bool:
    return isinstance(holder, (Seq, Map)) and bool(holder.state.get("drained"))


def _graph_state(tensor: Tensor) -> str:
    """`freed`: a backward pass went through it; `used`: somebody differentiates it or took it; `kept`: nobody ever will."""
    nodes = autograd.closure(tensor.node)
    if (
        tensor.state.get("taken")
        and tensor.node is not None
        and not tensor.node.state.get("root")
        and tensor.node.state.get("differentiated")
    ):
        return "used"
    if tensor.node is not None and isinstance(tensor.node.state.get("freed"), Spot):
        return "freed"
    if tensor.state.get("escaped") or any(n.state.get("escaped") for n in nodes[:1]):
        return "used"
    if tensor.node is not None and (tensor.node.state.get("differentiated") or tensor.node.state.get("retained")):
        return "used"
    if not tensor.graph:
        return (
            "freed"
            if any(isinstance(n.state.get("freed"), Spot) for n in nodes) and tensor.fw is None and nodes[1:]
            else "unknown"
        )
    return "kept" if tensor.fw == "torch" else "unknown"


def _freed_in(tensor: Tensor, loop: Any) -> bool:
    """Whether the backward pass was in the same loop."""
    return any(loop.uid in node.state.get("freed in", ()) for node in autograd.closure(tensor.node))


def _graph(m: Machine, held: Held) -> None:
    tensor: Tensor = held.value
    if _drained(held.holder) or held.loop is None:
        return
    state = _graph_state(tensor)
    if (state == "freed" and _freed_in(tensor, held.loop)) or (
        state == "kept"
        and not held.holder.state.get("escaped")
        and m.world.get("script")
        and (m.world.get("trains") or m.world.get("evaluates") or not tensor.state.get("taken"))
        and not _container_used(held)
    ):
        m.tell(
            "graph kept",
            [("holder", held.spot), ("birth", tensor.born)],
            scalar=_is_loss(tensor),
            state=state,
            how="container",
            nodes=_nodes(m, held),
        )


def _nodes(m: Machine, held: Held) -> list[Any]:
    """The expressions that carry a graph, as written: `.detach()` goes behind them."""
    plain = m.world.get("plain", set())
    return [
        node
        for node, value in held.data or ()
        if id(node) not in plain and (value.graph or _graph_state(value) == "freed")
    ]


def _container_used(held: Held) -> bool:
    """Whether what else is in the container is differentiated: then this is, too."""
    for one in inside(held.holder):
        if (
            isinstance(one, Tensor)
            and one.node is not None
            and one.node.state.get("differentiated")
            and not one.node.state.get("root")
        ):
            return True
    return False


def _is_loss(tensor: Tensor) -> bool:
    node = tensor.node
    return node is not None and (
        bool(node.state.get("root"))
        or node.op in ("mean", "sum")
        or "loss" in node.op
        or "Loss" in node.op
        or "entropy" in node.op
    )


def _sum(m: Machine, held: Held) -> None:
    tensor: Tensor = held.value
    if held.loop is None:
        return
    state = _graph_state(tensor)
    if state == "freed" and _freed_in(tensor, held.loop):
        m.tell(
            "graph kept",
            [("holder", held.spot), ("birth", tensor.born)],
            scalar=True,
            state=state,
            how="sum",
            nodes=_nodes(m, held),
        )


def _carried(m: Machine, held: Held) -> None:
    tensor: Tensor = held.value
    node = tensor.node
    if node is None or held.loop is None:
        return
    nodes = autograd.closure(node)
    freed = [
        n for n in nodes if isinstance(n.state.get("freed"), Spot) and held.loop.uid in n.state.get("freed in", ())
    ]
    if not freed and (tensor.state.get("escaped") or node.state.get("escaped")):
        return
    # A sum is made of the sum before it; a state goes through other steps.
    additive = node.op in ("add", "sub") and any(p.op in ("add", "sub") and p.turn != node.turn for p in node.parents)
    if node.state.get("differentiated") and not (freed and node not in freed):
        return
    grows = m.world.get("script") and tensor.graph and tensor.fw == "torch" and (additive or _forgotten(held))
    if not freed and not grows:
        return
    if tensor.fw is None and not (additive and freed):
        return
    born = next((n.born for n in nodes if n is not node and n.op not in ("add", "sub")), tensor.born)
    # An average of losses is a sum as well.
    losses = any(n.state.get("root") for n in nodes if n is not node)
    kind = "graph kept" if additive or losses else "state carried"
    m.tell(
        kind,
        [("holder", held.spot), ("birth", born)],
        scalar=True,
        state="freed" if freed else "kept",
        how="sum",
        nodes=[],
    )


def _forgotten(held: Held) -> bool:
    """Whether nobody uses the last state after the loop: then nobody needs the graphs that it carries."""
    state = held.value.state
    used = state.get("used", 0) > (held.data or 0) or state.get("returned") or state.get("taken")
    return held.data is not None and not used and held.loop is not None and _many_turns(held.loop)


def _hook(m: Machine, held: Held) -> None:
    container = held.holder
    drained = container.state.get("drained")
    guarded = held.data == "backward"
    if guarded or (drained and drained != "backward") or not m.world.get("script"):
        return
    if drained == "backward" and not held.value.state.get("no grad at store"):
        return
    if isinstance(container, Map) and not drained and not container.state.get("counted"):
        return
    m.tell("hook keeps", [("holder", held.spot), ("birth", held.value.born)], drained=bool(drained))


def _handle(m: Machine, held: Held) -> None:
    handle: Obj = held.value
    removed = handle.state.get("removed")
    if removed is None and m.world.get("script") and not handle.state.get("escaped"):
        m.tell("hook each step", [("holder", held.spot), ("birth", held.holder.born)])


def _device(m: Machine, held: Held) -> None:
    if _drained(held.holder) or not m.world.get("script") or held.holder.state.get("escaped"):
        return
    state = held.holder.state
    if state.get("comprehension") or (state.get("tested") and isinstance(held.holder, Map)):
        return
    # Nobody looks into the container; or what is read there is never this.
    untouched = held.value.state.get("used", 0) <= held.data["clock"] and held.spot.function != "<module>"
    unread = not state.get("read") and not state.get("returned")
    if (unread or untouched) and held.loop is not None and _many_turns(held.loop):
        m.tell("arrays collected", [("holder", held.spot), ("birth", held.value.born)], fw=held.value.fw)


def _many_turns(loop: Any) -> bool:
    over = getattr(loop.node, "iter", None)
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
        numbers = [a.value for a in over.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
        if len(numbers) == len(over.args):
            return len(range(*numbers)) > 16
    return not isinstance(over, (ast.Tuple, ast.List))


def _simple(kind: str) -> Any:
    def look(m: Machine, held: Held) -> None:
        if _drained(held.holder) or held.loop is None:
            return
        value = held.value
        m.tell(
            kind, [("holder", held.spot), ("birth", value.born)], tensor=value if isinstance(value, Tensor) else None
        )

    return look


def _optimizer(m: Machine, held: Held) -> None:
    """Several optimizers in a list are well where the list is made; a list elsewhere that takes each turn's is not."""
    state = held.holder.state
    done = held.data and not any(state.get(word) for word in ("read", "returned", "escaped"))
    if held.loop is not None and (held.spot.function != held.loop.function or done):
        _simple("optimizer kept")(m, held)


def _view(m: Machine, held: Held) -> None:
    tensor: Tensor = held.value
    base = tensor.state.get("base")
    if _drained(held.holder) or held.loop is None or not isinstance(base, Tensor) or not tensor.state.get("small"):
        return
    if held.loop.uid in base.loops and base.fw is not None and not base.graph and m.world.get("script"):
        m.tell("view kept", [("holder", held.spot), ("birth", base.born), ("escape", tensor.born)], tensor=tensor)


def _shared(m: Machine, held: Held) -> None:
    written = held.value.store.state.get("written")
    written = written.spot if isinstance(written, Maybe) else written
    shared, clock = held.data
    if isinstance(written, Spot) and not _drained(held.holder) and held.value.store.state.get("written at", 0) > clock:
        m.tell(
            "alias changes",
            [("holder", held.spot), ("birth", shared), ("use", written)],
            how="shared memory",
            tensor=held.value,
        )


def _same_buffers(m: Machine) -> None:
    """One buffer, stored in every turn and overwritten in the next."""
    first: dict[tuple[int, int, int], Held] = {}
    for held in m.held:
        if held.kind != "again" or _drained(held.holder) or not m.world.get("script"):
            continue
        state = held.value.store.state
        before = first.setdefault((id(held.holder), id(held.value.store), id(held.spot.node)), held)
        inside_ = held.loop is not None and held.loop.uid in state.get("written in", ())
        if before is not held and inside_ and before.data < state.get("written at", 0):
            spots = [("holder", held.spot), ("birth", held.value.store.born), ("use", state.get("written"))]
            m.tell("alias changes", spots, how="buffer", tensor=held.value)


def _alias(m: Machine, held: Held) -> None:
    """`best = model.state_dict()` while training goes on."""
    source: Map = held.value
    loaded = source.state.get("loaded at", 0)
    if any(held.data < step < loaded for step in m.world.get("step clocks", ())):
        m.tell(
            "alias changes",
            [
                ("birth", held.spot),
                ("use", source.state["loaded"] if isinstance(source.state["loaded"], Spot) else None),
            ],
            how="state_dict",
            tensor=None,
            node=source.born.node,
        )


def _lru(m: Machine, held: Held) -> None:
    if held.holder.state.get("cleared"):
        return
    m.tell(
        "cache keeps", [("holder", held.holder.born), ("birth", held.value.born), ("use", held.spot)], how="lru_cache"
    )


def _cache(m: Machine, held: Held) -> None:
    many = held.loop is not None and _many_turns(held.loop)
    if not _drained(held.holder) and m.world.get("script") and many:
        m.tell("cache keeps", [("holder", held.spot), ("birth", held.value.born)], how="dict")


def _closure(m: Machine, held: Held) -> None:
    if (
        not _drained(held.holder)
        and held.loop is not None
        and held.loop.uid in held.value.loops
        and m.world.get("script")
    ):
        m.tell("closure keeps", [("holder", held.spot), ("birth", held.value.born)])


def _generator(m: Machine, held: Held) -> None:
    state = held.data.state
    if not any(state.get(word) for word in ("ended", "escaped", "returned")) and not held.holder.state.get("read"):
        _closure(m, held)


def _grad(m: Machine, held: Held) -> None:
    if (
        not _drained(held.holder)
        and m.world.get("zeroed")
        and m.world.get("script")
        and not isinstance(held.holder, Map)
    ) and held.holder.kind == "set":
        m.tell("gradients kept", [("holder", held.spot), ("birth", held.value.born)], tensor=held.value)


def _model_alias(m: Machine, held: Held) -> None:
    steps = [
        o
        for o in m.world.get("optimizers", ())
        if any(held.value is part for top in o.state["modules"] for part in autograd.parts(top))
    ]
    if steps and any(held.data < step for step in m.world.get("step clocks", ())):
        m.tell("alias changes", [("holder", held.spot), ("birth", held.value.born)], how="model", tensor=None)


_LOOKS: dict[str, Any] = {
    "graph": _graph,
    "sum": _sum,
    "carried": _carried,
    "hook": _hook,
    "handle": _handle,
    "device": _device,
    "worker": _simple("worker tensor kept"),
    "optimizer": _optimizer,
    "view": _view,
    "shared": _shared,
    "alias": _alias,
    "model alias": _model_alias,
    "lru": _lru,
    "cache": _cache,
    "closure": _closure,
    "generator": _generator,
    "grad": _grad,
}


def _created_graphs(m: Machine) -> None:
    """`backward(create_graph=True)` ties gradients and weights into cycles until the gradients are reset."""
    if m.world.get("grads cleared") or not m.world.get("script"):
        return
    for spot, _, repeated in m.world.get("created graphs", ()):
        if repeated:
            m.tell("graph created", [("holder", spot)])


def _graph_growth(m: Machine) -> None:
    running = m.world.get("run loops", set())
    for uid, spot in m.world.get("ops in loop", ()):
        if uid in running:
            m.tell("graph grows", [("birth", spot)])
            return


def _variables_in_traces(m: Machine) -> None:
    for spot in m.world.get("variables in trace", ()):
        m.tell("variable in trace", [("birth", spot)])


def _caches(m: Machine) -> None:
    """A cache on a method of a module keeps the module; one on a function of tensors keeps the tensors."""
    for wrapped in m.world.get("caches", ()):
        limit, function = wrapped.options.get("maxsize", 128), wrapped.inner
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
            m.tell("cache keeps", [("holder", wrapped.born), ("birth", function.born)], how="lru_cache")


def _heavy(m: Machine, annotation: Any) -> bool:
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


def _threads(m: Machine) -> None:
    for runs in m.world.get("threads", {}).values():
        if len(runs) < 2:
            continue
        stores = [{id(store) for store, _ in writes} for writes, _, _ in runs]
        common = stores[0] & stores[1]
        for store, spot in runs[0][0]:
            if id(store) in common:
                m.tell("unsynchronised writers", [("use", spot), ("birth", store.born), ("holder", runs[1][1])])


def _never_reset(m: Machine) -> None:
    """A training loop in which no gradient is ever reset."""
    if m.world.get("zeroed") or m.world.get("grads cleared") or not m.world.get("script"):
        return
    for optimizer in m.world.get("optimizers", ()):
        spot = optimizer.state.get("stepped in loop")
        passed = m.world.get("backward in loop")
        if (
            spot is not None
            and passed is not None
            and not optimizer.state.get("escaped")
            and optimizer.state["modules"]
        ):
            m.tell("gradient never reset", [("use", passed), ("holder", spot)])


def _still_held(m: Machine, roots: list[Value]) -> None:
    """`del x` and a collection right after it, while another name that is never used again holds the same bytes."""
    for name, value, spot, frame, clock in m.world.get("deleted", ()):
        module = isinstance(value, Obj) and value.family == "torch.Module"
        if not module and (not isinstance(value, Tensor) or value.fw is None):
            continue
        collected = [at for at, where in m.world.get("collections", ()) if where is frame and 0 <= at - clock <= 3]
        if not collected:
            continue
        for other, held in frame.names.items():
            if module and held is value and not _named_after(frame, other, spot.line):
                m.tell("still held", [("end", spot), ("birth", value.born)], name=name, other=other)
            for one in () if module else inside(held):
                if (
                    isinstance(one, Tensor)
                    and one.store is value.store
                    and one.state.get("used", 0) <= clock
                    and other != name
                ):
                    m.tell(
                        "still held",
                        [("end", spot), ("birth", value.born), ("holder", one.born)],
                        name=name,
                        other=other,
                    )


def _named_after(frame: Any, name: str, line: int) -> bool:
    """Whether a name is read below a line."""
    body = frame.node if frame.node is not None else frame.module.tree
    return any(isinstance(one, ast.Name) and one.id == name and one.lineno > line for one in ast.walk(body))


def _temporary_functions(m: Machine) -> None:
    for born, spot, used in m.world.get("temporary functions", ()):
        m.tell("function of dead object", [("birth", born), ("escape", spot), ("use", used)])


__all__ = ["judge", "options"]
