"""At the end of the program: which of the things that were kept were kept by mistake."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Literal

from tenure.check import facts, kept, syntax
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import NONE, Map, Maybe, Obj, Seq, Spot, Tensor, Value
from tenure.check.kept import InContainer, Kept
from tenure.check.lifetimes import (
    container_reads,
    cycles,
    emptied_containers,
    function_caches,
    graphs,
    optimizer_groups,
    unused_graphs,
)
from tenure.check.syntax import Loop
from tenure.check.value_queries import inside


def add_facts(m: Interpreter, roots: list[Value]) -> None:
    """Add the facts that are certain about all that was kept."""
    m.world.trained_through = {id(held.spot.node) for held in m.kept if _trained_through(held)}
    for held in m.kept:
        examine = _EXAMINE.get(type(held))
        if examine is not None:
            before = len(m.facts)
            examine(m, held)
            value = getattr(held, "value", None)
            if len(m.facts) > before and isinstance(value, Tensor):
                for node in graphs.closure(value.node):
                    node.state.reported = True  # one fault, one finding
    cycles.add_facts(m, roots)
    _scratch(m)
    _same_buffers(m)
    _created_graphs(m)
    optimizer_groups.add_facts(m)
    _graph_growth(m)
    _variables_in_traces(m)
    function_caches.add_facts(m)
    _threads(m)
    _never_reset(m)
    _still_held(m, roots)
    _temporary_functions(m)
    cycles.outputs_on_context(m)
    unused_graphs.add_facts(m)


def _scratch(m: Interpreter) -> None:
    """Attributes that each trace sets before it reads them, and that nothing reads outside; and what is replaced unused."""
    for fact, trace, read in m.world.scratch:
        outside = not all(
            any(one is trace or (one.code and one.code is trace.code) for one in traces) for _, traces in read
        )
        if not outside and fact.use is None:
            m.facts.remove(fact)
    for left, trace, holder, key in m.world.left:
        now = [one.trace for one in inside(holder.get(key, NONE)) if isinstance(one, Tensor) and one.trace is not None]
        symbolic = any(one is trace or (one.code and one.code is trace.code) for one in now)
        if not symbolic and left.use is None and left in m.facts:
            m.facts.remove(left)  # it was replaced before anything used it


def _drained(m: Interpreter, held: InContainer | kept.Optimizer) -> bool:
    """Whether something is taken out of the container, or could be by a function that was not followed."""
    handed_over = isinstance(held.holder, Seq) and held.holder.kind == "queue" and held.holder.state.escaped
    return bool(held.holder.state.drained) or handed_over or emptied_containers.elsewhere(m, held)


def _graph_state(tensor: Tensor) -> Literal["freed", "kept", "unknown", "used"]:
    """`freed`: a backward pass went through it; `used`: something differentiates or reads it; `kept`: nothing does."""
    nodes = graphs.closure(tensor.node)
    if (
        tensor.state.taken
        and tensor.node is not None
        and not tensor.node.state.root
        and tensor.node.state.differentiated
    ):
        return "used"
    if tensor.node is not None and isinstance(tensor.node.state.freed, Spot):
        return "freed"
    if tensor.state.escaped or any(n.state.escaped for n in nodes[:1]):
        return "used"
    if tensor.node is not None and (tensor.node.state.differentiated or tensor.node.state.retained):
        return "used"
    if not tensor.graph:
        return (
            "freed"
            if any(isinstance(n.state.freed, Spot) for n in nodes) and tensor.fw is None and nodes[1:]
            else "unknown"
        )
    return "kept" if tensor.fw == "torch" else "unknown"


def _saves_in(tensor: Tensor, loop: Any) -> bool:
    """Whether each iteration of a loop adds something that its graph keeps."""
    nodes = graphs.closure(tensor.node)
    return any((n.saves or n.state.unknown) and any(uid == loop.uid for uid, _ in n.turn) for n in nodes)


def _needed_below(tensor: Tensor, loop: Any) -> bool:
    """Whether a backward pass after the loop goes through the graph that this one extends, so it stays anyway."""
    found = graphs.closure(tensor.node)
    below = any(one.state.differentiated for node in found for one in graphs.alike(node))
    return below and not _freed_in(tensor, loop)


def _trained_through(held: Kept) -> bool:
    """Whether a backward pass after the loop needs what its iterations store here: no call of this code is at fault."""
    value = getattr(held, "value", None)
    if not isinstance(value, Tensor) or value.node is None or held.loop is None:
        return False
    return bool(value.node.state.differentiated) and not _freed_in(value, held.loop)


def _freed_in(tensor: Tensor, loop: Any) -> bool:
    """Whether the backward pass was in the same loop."""
    return any(loop.uid in node.state.freed_in for node in graphs.closure(tensor.node))


def _graph(m: Interpreter, held: kept.Graph) -> None:
    tensor = held.value
    if _drained(m, held) or held.loop is None:
        return
    state = _graph_state(tensor)
    if state == "kept" and not syntax.many_turns(held.loop, few=8):
        return
    if state == "kept" and (id(held.spot.node) in m.world.trained_through or _needed_below(tensor, held.loop)):
        return
    if (state == "freed" and _freed_in(tensor, held.loop)) or (
        state == "kept"
        and not held.holder.state.escaped
        and m.world.script
        and (m.world.trains or m.world.evaluates or not tensor.state.taken)
        and not _container_used(held)
        and not held.inner
        and _saves_in(tensor, held.loop)
    ):
        m.add_fact(
            facts.GraphKept(
                holder=held.spot, birth=tensor.born, scalar=_is_loss(tensor), state=state, nodes=_nodes(m, held)
            )
        )


def _nodes(m: Interpreter, held: kept.Graph | kept.Sum) -> list[Any]:
    """The expressions that carry a graph, as written: `.detach()` is appended to them."""
    plain = m.world.plain
    return [
        node
        for node, value in held.written
        if id(node) not in plain and (value.graph or _graph_state(value) == "freed")
    ]


def _container_used(held: kept.Graph) -> bool:
    """Whether what else is in the container is differentiated: then this is, too."""
    for one in inside(held.holder):
        if (
            isinstance(one, Tensor)
            and one.node is not None
            and one.node.state.differentiated
            and not one.node.state.root
        ):
            return True
    return False


def _is_loss(tensor: Tensor) -> bool:
    node = tensor.node
    return node is not None and (
        bool(node.state.root)
        or node.op in ("mean", "sum")
        or "loss" in node.op
        or "Loss" in node.op
        or "entropy" in node.op
    )


def _sum(m: Interpreter, held: kept.Sum) -> None:
    tensor = held.value
    if held.loop is None:
        return
    state = _graph_state(tensor)
    if state == "freed" and _freed_in(tensor, held.loop):
        m.add_fact(
            facts.GraphKept(holder=held.spot, birth=tensor.born, scalar=True, state=state, nodes=_nodes(m, held))
        )


def _carried(m: Interpreter, held: kept.Carried) -> None:
    tensor = held.value
    node = tensor.node
    if node is None or held.loop is None:
        return
    nodes = graphs.closure(node)
    freed = [n for n in nodes if isinstance(n.state.freed, Spot) and held.loop.uid in n.state.freed_in]
    if not freed and (tensor.state.escaped or node.state.escaped):
        return
    # A sum is made of the sum before it; a state goes through other steps.
    additive = node.op in ("add", "sub") and any(p.op in ("add", "sub") and p.turn != node.turn for p in node.parents)
    if node.state.differentiated and not (freed and node not in freed):
        return
    slot = isinstance(held.holder, Map) and not held.holder.state.escaped and syntax.many_turns(held.loop)
    grows = m.world.script and tensor.graph and tensor.fw == "torch" and (additive or slot or _forgotten(held))
    trained_through = held.forward or id(held.spot.node) in m.world.trained_through
    if not freed and (not grows or trained_through or _needed_below(tensor, held.loop)):
        return
    if tensor.fw is None and not (additive and freed):
        return
    born = next((n.born for n in nodes if n is not node and n.op not in ("add", "sub")), tensor.born)
    # An average of losses is a sum as well.
    losses = any(n.state.root for n in nodes if n is not node)
    if additive or losses:
        m.add_fact(facts.GraphKept(holder=held.spot, birth=born, scalar=True, state="freed" if freed else "kept"))
    else:
        m.add_fact(facts.StateCarried(holder=held.spot, birth=born))


def _forgotten(held: kept.Carried) -> bool:
    """Return whether nothing uses the last state after the loop: then nothing needs the graphs that it carries."""
    state = held.value.state
    used = state.used > (held.clock or 0) or state.returned or state.taken
    return held.clock is not None and not used and held.loop is not None and syntax.many_turns(held.loop)


def _hook(m: Interpreter, held: kept.ByHook) -> None:
    container = held.holder
    drained = container.state.drained
    guarded = held.hook == "backward"
    if guarded or (drained and drained != "backward") or not m.world.script:
        return
    if drained == "backward" and not held.value.state.no_grad_at_store:
        return
    if isinstance(container, Map) and not drained and not container.state.counted:
        return
    m.add_fact(facts.HookKeeps(holder=held.spot, birth=held.value.born, drained=bool(drained)))


def _handle(m: Interpreter, held: kept.Handle) -> None:
    handle = held.value
    if handle.state.removed is None and m.world.script and not handle.state.escaped:
        m.add_fact(facts.HookEachStep(holder=held.spot, birth=held.holder.born))


def _device(m: Interpreter, held: kept.OnDevice) -> None:
    state = held.holder.state
    if _drained(m, held) or not m.world.script or state.comprehension:
        return
    if (state.tested and isinstance(held.holder, Map)) or held.loop is None:
        return
    if syntax.many_turns(held.loop, few=100) and container_reads.unread(
        m, held.holder, held.record, held.value, held.spot
    ):
        m.add_fact(facts.ArraysCollected(holder=held.spot, birth=held.value.born))


def _stays(m: Interpreter, held: InContainer | kept.Optimizer) -> bool:
    """Whether each iteration of a loop adds to a container, and nothing takes from it."""
    return held.loop is not None and not _drained(m, held)


def _worker(m: Interpreter, held: kept.OfWorker) -> None:
    if _stays(m, held) and not held.holder.state.replaced:
        m.add_fact(facts.WorkerTensorKept(holder=held.spot, birth=held.value.born))


def _optimizer(m: Interpreter, held: kept.Optimizer) -> None:
    """Several optimizers in a list are well where the list is made; a list elsewhere that takes each turn's is not."""
    state = held.holder.state
    done = held.stepped and not (state.read or state.returned or state.escaped)
    elsewhere = held.loop is not None and held.spot.function != held.loop.function
    if (elsewhere or done) and _stays(m, held):
        m.add_fact(facts.OptimizerKept(holder=held.spot, birth=held.value.born))


def _view(m: Interpreter, held: kept.View) -> None:
    tensor = held.value
    base = tensor.state.base
    if _drained(m, held) or held.loop is None or not isinstance(base, Tensor) or not tensor.state.small:
        return
    if held.holder.state.replaced:
        return  # all of it is freed at once
    others = (one for one in m.kept if isinstance(one, kept.View) and one.value.store is tensor.store)
    if any(one.spot.node is not held.spot.node for one in others):
        return  # the other parts of the buffer are kept, too
    if held.loop.uid in base.loops and base.fw is not None and not base.graph and m.world.script:
        m.add_fact(facts.ViewKept(holder=held.spot, birth=base.born, escape=tensor.born, fw=tensor.fw))


def _shared(m: Interpreter, held: kept.SharedMemory) -> None:
    written = held.value.store.state.written
    written = written.spot if isinstance(written, Maybe) else written
    if isinstance(written, Spot) and not _drained(m, held) and held.value.store.state.written_at > held.clock:
        m.add_fact(facts.AliasChanges(holder=held.spot, birth=held.shared, use=written, how="shared memory"))


def _same_buffers(m: Interpreter) -> None:
    """One buffer, stored in every turn and overwritten in the next."""
    first: dict[tuple[int, int, int], kept.SameBuffer] = {}
    for held in m.kept:
        if not isinstance(held, kept.SameBuffer) or _drained(m, held) or not m.world.script:
            continue
        state = held.value.store.state
        before = first.setdefault((id(held.holder), id(held.value.store), id(held.spot.node)), held)
        inside_ = held.loop is not None and held.loop.uid in state.written_in
        if before is not held and inside_ and before.clock < state.written_at:
            written = state.written if isinstance(state.written, Spot) else None
            m.add_fact(facts.AliasChanges(holder=held.spot, birth=held.value.store.born, use=written, how="buffer"))


def _alias(m: Interpreter, held: kept.Weights) -> None:
    """`best = model.state_dict()` while training goes on."""
    source = held.value
    loaded = source.state.loaded_at
    if any(held.clock < step < loaded for step in m.world.step_clocks):
        m.add_fact(
            facts.AliasChanges(
                birth=held.spot,
                use=source.state.loaded if isinstance(source.state.loaded, Spot) else None,
                how="state_dict",
                call=source.born.node,
            )
        )


def _lru(m: Interpreter, held: kept.InFunctionCache) -> None:
    if held.holder.state.cleared:
        return
    m.add_fact(facts.CacheKeeps(holder=held.holder.born, birth=held.value.born, use=held.spot, how="lru_cache"))


def _cache(m: Interpreter, held: kept.CacheEntry) -> None:
    many = held.loop is not None and syntax.many_turns(held.loop)
    if not _drained(m, held) and m.world.script and many:
        m.add_fact(facts.CacheKeeps(holder=held.spot, birth=held.value.born, how="dict"))


def _closure(m: Interpreter, held: kept.Captured | kept.InGenerator) -> None:
    # TensorFlow's graph keeps its own tensors.
    own = held.value.place is None and held.loop is not None and held.loop.uid in held.value.loops
    if own and not _drained(m, held) and m.world.script:
        m.add_fact(facts.ClosureKeeps(holder=held.spot, birth=held.value.born))


def _generator(m: Interpreter, held: kept.InGenerator) -> None:
    state = held.generator.state
    if not (state.ended or state.escaped or state.returned) and not held.holder.state.read:
        _closure(m, held)


def _grad(m: Interpreter, held: kept.Gradient) -> None:
    if _drained(m, held) or not m.world.zeroed or not m.world.script:
        return
    in_set = isinstance(held.holder, Seq) and held.holder.kind == "set"
    many = held.loop is not None and syntax.many_turns(held.loop) and m.world.grads_cleared
    if in_set or (many and container_reads.unread(m, held.holder, held.value, held.value, held.spot)):
        m.add_fact(facts.GradientsKept(holder=held.spot, birth=held.value.born, in_set=in_set))


def _model_alias(m: Interpreter, held: kept.ModelAlias) -> None:
    steps = [
        o
        for o in m.world.optimizers
        if any(held.value is part for top in o.state.modules for part in graphs.parts(top))
    ]
    clocks = m.world.step_clocks
    if steps and any(step < held.clock for step in clocks) and any(held.clock < step for step in clocks):
        m.add_fact(facts.AliasChanges(holder=held.spot, birth=held.value.born, how="model"))


_EXAMINE: dict[type[Kept], Callable[[Interpreter, Any], None]] = {
    kept.Graph: _graph,
    kept.Sum: _sum,
    kept.Carried: _carried,
    kept.ByHook: _hook,
    kept.Handle: _handle,
    kept.OnDevice: _device,
    kept.OfWorker: _worker,
    kept.Optimizer: _optimizer,
    kept.View: _view,
    kept.SharedMemory: _shared,
    kept.Weights: _alias,
    kept.ModelAlias: _model_alias,
    kept.InFunctionCache: _lru,
    kept.CacheEntry: _cache,
    kept.Captured: _closure,
    kept.InGenerator: _generator,
    kept.Gradient: _grad,
}


def _created_graphs(m: Interpreter) -> None:
    """`backward(create_graph=True)` ties gradients and weights into cycles until the gradients are reset."""
    cleared = m.world.cleared_modules
    if not m.world.script or (m.world.grads_cleared and None in cleared):
        return
    reset = {id(part) for module in cleared for part in graphs.parts(module)}
    stepped = {id(one) for optimizer in m.world.optimizers for one in optimizer.state.tensors}
    for spot, leaf in m.world.leaf_graphs:
        if None not in cleared and id(leaf) not in stepped:
            m.add_fact(facts.GraphCreated(holder=spot))
    for spot, repeated, owners in m.world.created_graphs:
        if repeated and (owners or not reset) and not any(id(one) in reset for one in owners):
            m.add_fact(facts.GraphCreated(holder=spot))


def _graph_growth(m: Interpreter) -> None:
    """One place for each statement of a loop that adds operations: the first."""
    found: dict[int, tuple[Loop, Spot, ast.AST]] = {}
    for loop, spot, statement in m.world.ops_in_loop:
        if loop.uid in m.world.run_loops and syntax.many_turns(loop, few=4):
            found[id(spot.node)] = loop, spot, statement  # the innermost loop comes last
    seen: set[int] = set()
    for loop, spot, statement in found.values():
        if id(statement) not in seen:
            seen.add(id(statement))
            m.add_fact(facts.GraphGrows(birth=spot, calls=not getattr(loop.node, "body", True)))


def _variables_in_traces(m: Interpreter) -> None:
    functions: set[tuple[str, str]] = set()
    for spot in m.world.variables_in_trace:  # one function, one finding
        if (spot.module.file, spot.function) not in functions:
            functions.add((spot.module.file, spot.function))
            m.add_fact(facts.VariableInTrace(birth=spot))


def _threads(m: Interpreter) -> None:
    for runs in m.world.threads.values():
        if len(runs) < 2:
            continue
        stores = [{id(store) for store, _ in writes} for writes, _, _ in runs]
        common = stores[0] & stores[1]
        for store, spot in runs[0][0]:
            if id(store) in common:
                m.add_fact(facts.UnsynchronisedWriters(use=spot, birth=store.born, holder=runs[1][1]))


def _never_reset(m: Interpreter) -> None:
    """A training loop in which no gradient is ever reset."""
    if m.world.zeroed or m.world.grads_cleared or not m.world.script:
        return
    for optimizer in m.world.optimizers:
        spot = optimizer.state.stepped_in_loop
        passed = m.world.backward_in_loop
        if spot is not None and passed is not None and not optimizer.state.escaped and optimizer.state.modules:
            m.add_fact(facts.GradientNeverReset(use=passed, holder=spot))


def _still_held(m: Interpreter, roots: list[Value]) -> None:
    """`del x` and a collection right after it, while another name that is never used again holds the same bytes."""
    for name, value, spot, frame, clock in m.world.deleted:
        if not any(where is frame and 0 <= at - clock <= 3 for at, where in m.world.collections):
            continue
        for other, held in frame.names.items():
            if isinstance(value, Obj):
                module = value.family == "torch.Module" and held is value
                if module and not _named_after(frame, other, spot.line):
                    m.add_fact(facts.StillHeld(end=spot, birth=value.born, name=name, other=other))
            elif isinstance(value, Tensor) and value.fw is not None and other != name:
                for one in inside(held):
                    if isinstance(one, Tensor) and one.store is value.store and one.state.used <= clock:
                        m.add_fact(facts.StillHeld(end=spot, birth=value.born, holder=one.born, name=name, other=other))


def _named_after(frame: Any, name: str, line: int) -> bool:
    """Whether a name is read below a line."""
    body = frame.node if frame.node is not None else frame.module.tree
    return any(isinstance(one, ast.Name) and one.id == name and one.lineno > line for one in ast.walk(body))


def _temporary_functions(m: Interpreter) -> None:
    for born, spot, used in m.world.temporary_functions:
        m.add_fact(facts.FunctionOfDeadObject(birth=born, escape=spot, use=used))
