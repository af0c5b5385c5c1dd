"""torch's graphs: what a backward pass frees, what it must not find freed or changed."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tenure.check import facts, library_calls, syntax
from tenure.check.abstract_interpreter import Interpreter
from tenure.check.abstract_values import Const, Either, Maybe, Node, Obj, Spot, Storage, Tensor, Value
from tenure.check.value_queries import inside, options, tensors

LIMIT = 600
# Of the two inputs of a product, one is kept if the other requires a gradient; a quotient always keeps its divisor.
_PRODUCTS = frozenset(["mul", "multiply", "matmul", "mm", "bmm", "mv", "dot", "outer", "inner"])
_OFTEN = 64  # iterations: a backward pass that comes after more may come once
_QUOTIENTS = frozenset(["div", "true_divide", "divide"])


def closure(node: Node | None) -> list[Node]:
    """A node and all it came from."""
    found: list[Node] = []
    seen: set[int] = set()
    waiting = [node] if node is not None else []
    while waiting and len(found) < LIMIT:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            found.append(one)
            waiting.extend(one.parents)
    return found


def alike(node: Node) -> list[Node]:
    """A node, and those of which only one is followed in its place."""
    found, seen = [node], {id(node)}
    for one in found:
        for other in one.state.alternatives:
            if id(other) not in seen and len(found) < LIMIT:
                seen.add(id(other))
                found.append(other)
    return found


def turns_of(node: Node | None, loop: int) -> set[int]:
    """In which turns of a loop the nodes behind this one were made."""
    return {turn for one in closure(node) for uid, turn in one.turn if uid == loop}


def save(m: Interpreter, made: Tensor, inputs: Sequence[Tensor], op: str, saves: str = "") -> None:
    """Note what the step that made a tensor keeps for the backward pass."""
    node = made.node
    if node is None or not made.graph:
        return
    how = saves or library_calls.saves(op)
    node.saves = how in ("output", "inputs", "some")
    if how == "output":
        node.saved = (made.store,)
    elif how == "inputs":
        node.saved = tuple(one.store for one in _kept(op, inputs))
        node.saves = bool(node.saved) or op not in _PRODUCTS | _QUOTIENTS
    if node.saves:
        for store in node.saved:
            if store.state.savers is None:
                store.state.savers = []
            store.state.savers.append(node)


def _kept(op: str, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    if op not in _PRODUCTS | _QUOTIENTS:
        return inputs
    if len(inputs) < 2:
        return []  # the other is a number
    first, second = inputs[:2]
    found = [first] if second.graph or second.leaf else []
    if op in _QUOTIENTS or first.graph or first.leaf:
        found.append(second)
    return found


def save_parameters(m: Interpreter, made: Tensor, module: Obj) -> None:
    """The step also keeps a module's weights."""
    if made.node is not None:
        made.node.saves = True
        m.world.weighted.append((made.node, module))


def written(m: Interpreter, store: Storage, spot: Spot, *, data: bool = False) -> None:
    """A buffer is changed in place: steps that saved it cannot go backward any more."""
    if data:
        return  # `.data` is a way around autograd: it counts no version
    m.set_state(store.state, "written", spot)
    store.state.written_at = m.clock
    store.state.written_in = m.loop_ids
    for node in store.state.savers or ():
        if node.state.freed is None:
            m.set_state(node.state, "spoiled", spot)


def stepped(m: Interpreter, optimizer: Obj, spot: Spot) -> None:
    """`optimizer.step()` changes weights in place."""
    owned = optimizer.state.modules or []
    modules = [x for owner in owned for x in parts(owner)]
    reach = {id(x) for x in modules}
    for weight in (w for x in modules for w in x.attrs.values() if isinstance(w, Tensor) and w.leaf):
        state = weight.store.state
        state.written, state.written_at, state.written_in = spot, m.clock, m.loop_ids
    for node, module in m.world.weighted:
        if id(module) in reach and node.state.freed is None and node.state.spoiled is None:
            m.set_state(node.state, "spoiled", spot)
    if m.loops:
        optimizer.state.stepped_in_loop = spot


def owners(m: Interpreter, value: Value) -> list[Obj]:
    """The modules whose weights the graph of a value leads to."""
    nodes = {id(one) for tensor in tensors(value) for one in closure(tensor.node)}
    used = [*m.world.weighted, *m.world.users]
    return [module for node, module in used if id(node) in nodes]


def parts(owner: Any, depth: int = 0) -> list[Obj]:
    """A module and the modules in it."""
    if not isinstance(owner, Obj):
        return []
    found = [owner]
    if depth < 6:
        for value in list(owner.attrs.values()):
            for one in inside(value):
                if isinstance(one, Obj) and one is not owner:
                    found.extend(parts(one, depth + 1))
    return found


def flag(value: Value | None) -> bool:
    """Whether an option is surely on."""
    return isinstance(value, Const) and bool(value.value)


def backward(
    m: Interpreter, value: Value, node: ast.AST, kwargs: dict[str, Value], *, inputs: Value | None = None
) -> None:
    """`loss.backward()` or `autograd.grad(loss, …)`."""
    spot = m.spot(node)
    if m.world.jax and "torch" not in spot.module.text:
        return  # a JAX program's own method of this name
    retain = kwargs.get("retain_graph", kwargs.get("retain_variables"))
    create = flag(kwargs.get("create_graph"))
    keeps = flag(retain) or (create and not (isinstance(retain, Const) and retain.value is False))
    unsure = (retain is not None and not isinstance(retain, Const)) or (
        kwargs.get("create_graph") is not None and not isinstance(kwargs["create_graph"], Const)
    )
    targets = [tensor for tensor in tensors(value) if tensor.fw in (None, "torch")]
    several = isinstance(value, Either) and len(targets) > 1
    certain = _in_each(options(value)) if several and not unsure else frozenset()
    unsure = unsure or several  # one of several: only what all of them came from, for certain
    m.world.trains = True
    m.world.backwards.append((m.clock, m.turn()))
    if not several and m.grad[-1] == "grad":
        for tensor in targets:
            refine(m, tensor)
            _second_time(m, tensor, closure(tensor.node), spot, keeps=keeps)
    elif certain and m.grad[-1] == "grad":
        common = [node for node in closure(targets[0].node) if id(node) in certain]
        _second_time(m, targets[0], common, spot, keeps=keeps)
    for tensor in targets:
        refine(m, tensor)
        if m.grad[-1] != "grad":
            continue
        nodes = closure(tensor.node)
        if tensor.node is not None and inputs is None:
            tensor.node.state.root = True
        for one in nodes:
            m.set_state(one.state, "differentiated", spot)
            if not keeps and (not unsure or id(one) in certain):
                if one.state.freed is None or isinstance(one.state.freed, Maybe):
                    m.set_state(one.state, "freed", spot)
                    one.state.freed_in = m.loop_ids
            elif keeps:
                m.set_state(one.state, "retained", spot)
            elif one.state.freed is None:
                m.set_state(one.state, "freed", Maybe(spot))
                one.state.freed_in = m.loop_ids
        if keeps and inputs is None:
            _retained(m, tensor, nodes, spot, create=create)


def _in_each(ways: Sequence[Value]) -> frozenset[int]:
    """The steps that a backward pass goes through whichever of several tensors it begins at: `if …: loss = loss + extra`."""
    found = [{id(one) for one in closure(way.node)} for way in ways if isinstance(way, Tensor)]
    return frozenset(set.intersection(*found)) if len(found) == len(ways) else frozenset()


def refine(m: Interpreter, tensor: Tensor) -> None:
    """What has a backward pass is a torch tensor with a graph."""
    tensor.graph = True
    tensor.fw = tensor.fw or "torch"
    if tensor.node is None:
        turn = tuple((loop.uid, loop.turn) for loop in m.loops if loop.uid in tensor.loops)
        tensor.node = Node("unknown", tensor.born, (), turn)
        tensor.node.state.unknown = True
        m.world.blind_backwards.append((m.clock, m.turn()))


def gradient_with_graph(m: Interpreter, leaf: Tensor) -> None:
    """`x.grad` after backward(create_graph=True), of a leaf that this iteration has created: each references the other."""
    spot = m.world.created_graphs[-1][0]
    own = leaf.leaf and leaf.fw == "torch" and not {"param", "any parameter"} & leaf.flags
    if own and spot.function == leaf.born.function == m.frame.function and spot.line > leaf.born.line and leaf.loops:
        m.world.leaf_graphs.append((spot, leaf))


def _second_time(m: Interpreter, tensor: Tensor, nodes: list[Node], spot: Spot, *, keeps: bool) -> None:
    own = tensor.node
    for one in nodes:
        freed = one.state.freed
        if isinstance(freed, Spot) and (one.saves or (one is own and one.state.unknown)):
            carried = _earlier_turn(m, one) and not any(n.state.contained for n in nodes if _earlier_turn(m, n))
            carried = carried and _is_state(m, tensor.node, nodes)
            carried = carried or any(uid in m.world.yielding for uid, _ in one.turn)
            site = one.state.site if carried else None
            m.add_fact(facts.FreedGraph(use=spot, end=freed, birth=one.born, holder=site, carried=carried))
            return
        known = freed.spot if isinstance(freed, Maybe) and freed.often and one.saves else None
        if isinstance(known, Spot) and known.node is spot.node and _accumulates(m, spot.node):
            m.add_fact(facts.FreedGraph(use=spot, end=known, birth=one.born, carried=False))
            return
    for one in nodes:
        spoiled = one.state.spoiled
        if isinstance(spoiled, Spot) and one.state.freed is None:
            m.add_fact(facts.SavedChanged(use=spoiled, birth=one.born, end=spot, op=one.op))
            return
        compiled = one.state.compiled
        if compiled is not None and keeps:
            m.add_fact(facts.CompiledRetained(use=spot, birth=compiled))
            return


def _accumulates(m: Interpreter, call: Any) -> bool:
    """Whether `if step % 4 == 0: total.backward()` is in a loop that only adds to `total`, and never resets it."""
    loop = m.loops[-1] if m.loops else None
    name = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if loop is None or not isinstance(name, ast.Name) or loop.function != m.frame.function:
        return False
    inside_ = syntax.nodes(loop.node)
    stores = [
        one for one in inside_ if isinstance(one, ast.Name) and one.id == name.id and not isinstance(one.ctx, ast.Load)
    ]
    added = {id(target) for one in inside_ for target in _added_to(one, name.id)}
    tests = [one.test for one in inside_ if isinstance(one, ast.If) and call in syntax.nodes(one)]
    periods = [part.right for test in tests for part in syntax.nodes(test) if isinstance(part, ast.BinOp)
               and isinstance(part.op, ast.Mod)]  # fmt: skip
    known = [m.evaluate(one) for one in periods]
    often = all(isinstance(one, Const) and isinstance(one.value, int) and one.value < _OFTEN for one in known)
    return bool(stores and known) and all(id(one) in added for one in stores) and often and syntax.many_turns(loop)


def _added_to(statement: ast.AST, name: str) -> list[ast.expr]:
    """The target of `name += …` and of `name = name + …`."""
    if isinstance(statement, ast.AugAssign):
        return [statement.target]
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        sides = (statement.value.left, statement.value.right)
        again = isinstance(statement.value.op, ast.Add) and any(
            isinstance(one, ast.Name) and one.id == name for one in sides
        )
        return statement.targets if again else []
    return []


def _is_state(m: Interpreter, root: Node | None, nodes: list[Node]) -> bool:
    """Whether a state is made anew of the last one in each turn: no sum, and nothing that was made once and kept."""
    sums = ("add", "sub")
    if root is not None and root.op in sums and any(p.op in sums and _earlier_turn(m, p) for p in root.parents):
        return False
    now = {id(n.born.node) for n in nodes if not _earlier_turn(m, n)}
    return any(id(n.born.node) in now for n in nodes if _earlier_turn(m, n)) or any(n.state.unknown for n in nodes)


def _earlier_turn(m: Interpreter, node: Node, *, long: bool = False) -> bool:
    """Whether a step was made in an earlier iteration of a loop; with `long`, of one that has more than a few."""
    now = {loop.uid: loop.turn for loop in m.loops if not long or syntax.many_turns(loop, few=4)}
    return any(uid in now and turn < now[uid] for uid, turn in node.turn)


def _retained(m: Interpreter, tensor: Tensor, nodes: list[Node], spot: Spot, *, create: bool) -> None:
    if not create and any(_earlier_turn(m, one, long=True) for one in nodes) and m.loops:
        first = next(one for one in nodes if _earlier_turn(m, one, long=True))
        state = first.op not in ("add", "sub") and not first.state.root
        m.add_fact(facts.RetainedGrowing(holder=spot, birth=first.born, state=state))


def thawed(m: Interpreter, tensor: Tensor, *, wanted: bool) -> None:
    """`requires_grad` is set on a tensor; for one parameter met in a loop, it holds for its whole module."""
    tensor.leaf = wanted
    owner = tensor.state.owner
    if isinstance(owner, Obj) and owner.state.parameter is tensor:
        freeze(m, owner, frozen=not wanted)


def freeze(m: Interpreter, module: Obj, *, frozen: bool) -> None:
    """The parameters of a module, and of those in it, require gradients or do not."""
    for part in parts(module):
        m.set_state(part.state, "frozen", frozen)
        for one in (part.state.parameter, *part.attrs.values()):
            if isinstance(one, Tensor) and "param" in one.flags:
                one.leaf = not frozen and not m.conditions  # on one branch only: nothing is known
