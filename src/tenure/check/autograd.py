"""torch's graphs: what a backward pass frees, what it must not find freed or changed."""

from __future__ import annotations

import ast
from typing import Any

from tenure.check.machine import Machine
from tenure.check.values import (
    Const,
    Either,
    Maybe,
    Node,
    Obj,
    Seq,
    Spot,
    Storage,
    Tensor,
    Value,
    inside,
    tensors,
)

LIMIT = 600
_OUTPUT = frozenset(
    ["sigmoid", "tanh", "softmax", "log_softmax", "exp", "sqrt", "rsqrt", "relu", "elu", "selu", "reciprocal", "norm"]
)
NOTHING = frozenset(
    [
        "add",
        "sub",
        "neg",
        "sum",
        "mean",
        "view",
        "reshape",
        "flatten",
        "squeeze",
        "unsqueeze",
        "transpose",
        "t",
        "permute",
        "expand",
        "expand_as",
        "clone",
        "to",
        "float",
        "double",
        "half",
        "cuda",
        "cpu",
        "type",
        "stack",
        "cat",
        "chunk",
        "split",
        "unbind",
        "select",
        "narrow",
        "movedim",
        "contiguous",
        "T",
        "mT",
        "long",
        "int",
        "bool",
        "item_view",
        "detach",
        "index",
        "repeat",
        "roll",
        "flip",
        "diagonal",
        "unfold",
        "view_as",
        "reshape_as",
        "swapaxes",
        "bfloat16",
        "requires_grad_",
        "nansum",
        "cumsum",
    ]
)


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


def turns_of(node: Node | None, loop: int) -> set[int]:
    """In which turns of a loop the nodes behind this one were made."""
    return {turn for one in closure(node) for uid, turn in one.turn if uid == loop}


def save(m: Machine, made: Tensor, inputs: list[Tensor], op: str, saves: str = "") -> None:
    """Note what the step that made a tensor keeps for the backward pass."""
    node = made.node
    if node is None or not made.graph:
        return
    how = saves or ("nothing" if op in NOTHING else "output" if op in _OUTPUT else "inputs")
    node.saves = how != "nothing"
    if how == "output":
        node.saved = (made.store,)
    elif how == "inputs":
        node.saved = tuple(one.store for one in inputs)
    if node.saves:
        for store in node.saved:
            store.state.setdefault("savers", []).append(node)


def save_parameters(m: Machine, made: Tensor, module: Obj) -> None:
    """The step also keeps a module's weights."""
    if made.node is not None:
        made.node.saves = True
        m.world.setdefault("weighted", []).append((made.node, module))


def written(m: Machine, store: Storage, spot: Spot, *, data: bool = False) -> None:
    """A buffer is changed in place: steps that saved it cannot go backward any more."""
    if data:
        return  # `.data` is a way around autograd: it counts no version
    m.put(store.state, "written", spot)
    store.state["written at"] = m.clock
    store.state["written in"] = m.loop_ids
    for node in store.state.get("savers", ()):
        if node.state.get("freed") is None:
            m.put(node.state, "spoiled", spot)


def stepped(m: Machine, optimizer: Obj, spot: Spot) -> None:
    """`optimizer.step()` changes weights in place."""
    owned = optimizer.state.get("modules") or []
    modules = [x for owner in owned for x in parts(owner)]
    reach = {id(x) for x in modules}
    for weight in (w for x in modules for w in x.attrs.values() if isinstance(w, Tensor) and w.leaf):
        weight.store.state.update({"written": spot, "written at": m.clock, "written in": m.loop_ids})
    for node, module in m.world.get("weighted", ()):
        if id(module) in reach and node.state.get("freed") is None and node.state.get("spoiled") is None:
            m.put(node.state, "spoiled", spot)
    if m.loops:
        optimizer.state["stepped in loop"] = spot


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


def backward(m: Machine, value: Value, node: ast.AST, kwargs: dict[str, Value], *, inputs: Value | None = None) -> None:
    """`loss.backward()` or `autograd.grad(loss, …)`."""
    retain = kwargs.get("retain_graph")
    create = flag(kwargs.get("create_graph"))
    keeps = flag(retain) or (create and not (isinstance(retain, Const) and retain.value is False))
    unsure = (retain is not None and not isinstance(retain, Const)) or (
        kwargs.get("create_graph") is not None and not isinstance(kwargs["create_graph"], Const)
    )
    spot = m.spot(node)
    unsure = unsure or isinstance(value, Either)  # one of several: none of them for certain
    targets = [tensor for tensor in tensors(value) if tensor.fw in (None, "torch")]
    m.world["trains"] = True
    if not isinstance(value, Either) and m.grad[-1] == "grad":
        for tensor in targets:
            refine(m, tensor)
            _second_time(m, tensor, closure(tensor.node), spot, keeps=keeps)
    for tensor in targets:
        refine(m, tensor)
        if m.grad[-1] != "grad":
            continue
        nodes = closure(tensor.node)
        if tensor.node is not None and inputs is None:
            tensor.node.state["root"] = True
        for one in nodes:
            m.put(one.state, "differentiated", spot)
            if not keeps and not unsure:
                if one.state.get("freed") is None or isinstance(one.state.get("freed"), Maybe):
                    m.put(one.state, "freed", spot)
                    one.state["freed in"] = m.loop_ids
            elif keeps:
                m.put(one.state, "retained", spot)
            elif one.state.get("freed") is None:
                m.put(one.state, "freed", Maybe(spot))
                one.state["freed in"] = m.loop_ids
        if keeps and inputs is None:
            _retained(m, tensor, nodes, spot, create=create)


def refine(m: Machine, tensor: Tensor) -> None:
    """What has a backward pass is a torch tensor with a graph."""
    tensor.graph = True
    tensor.fw = tensor.fw or "torch"
    if tensor.node is None:
        turn = tuple((loop.uid, loop.turn) for loop in m.loops if loop.uid in tensor.loops)
        tensor.node = Node("unknown", tensor.born, (), turn)
        tensor.node.state["unknown"] = True


def _second_time(m: Machine, tensor: Tensor, nodes: list[Node], spot: Spot, *, keeps: bool) -> None:
    own = tensor.node
    for one in nodes:
        freed = one.state.get("freed")
        certain = isinstance(freed, Spot) and (one.saves or (one is own and one.state.get("unknown")))
        if certain:
            carried = _earlier_turn(m, one) and not any(n.state.get("contained") for n in nodes if _earlier_turn(m, n))
            carried = carried and _is_state(m, tensor.node, nodes)
            site = one.state.get("site") if carried else None
            m.tell(
                "freed graph", [("use", spot), ("end", freed), ("birth", one.born), ("holder", site)], carried=carried
            )
            return
    for one in nodes:
        spoiled = one.state.get("spoiled")
        if isinstance(spoiled, Spot) and one.state.get("freed") is None:
            m.tell("saved changed", [("use", spoiled), ("birth", one.born), ("end", spot)], op=one.op)
            return
        compiled = one.state.get("compiled")
        if compiled is not None and keeps:
            m.tell("compiled retained", [("use", spot), ("birth", compiled)])
            return


def _is_state(m: Machine, root: Node | None, nodes: list[Node]) -> bool:
    """Whether a state is made anew of the last one in each turn: no sum, and nothing that was made once and kept."""
    sums = ("add", "sub")
    if root is not None and root.op in sums and any(p.op in sums and _earlier_turn(m, p) for p in root.parents):
        return False
    now = {id(n.born.node) for n in nodes if not _earlier_turn(m, n)}
    return any(id(n.born.node) in now for n in nodes if _earlier_turn(m, n)) or any(
        n.state.get("unknown") for n in nodes
    )


def _earlier_turn(m: Machine, node: Node) -> bool:
    now = {loop.uid: loop.turn for loop in m.loops}
    return any(uid in now and turn < now[uid] for uid, turn in node.turn)


def _retained(m: Machine, tensor: Tensor, nodes: list[Node], spot: Spot, *, create: bool) -> None:
    if create:
        owners = [
            m.world["weighted"][i][1]
            for i in range(len(m.world.get("weighted", [])))
            if m.world["weighted"][i][0] in nodes
        ]
        if owners:
            m.world.setdefault("created", []).append((spot, owners))
    elif any(_earlier_turn(m, one) for one in nodes) and m.loops:
        first = next(one for one in nodes if _earlier_turn(m, one))
        state = first.op not in ("add", "sub") and not first.state.get("root")
        m.tell("retained growing", [("holder", spot), ("birth", first.born)], state=state)


__all__ = ["Seq", "backward", "closure", "save", "stepped", "written"]
