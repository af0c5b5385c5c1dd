"""Walking the autograd graph from Python: which nodes saved a tensor, and from which live tensors they are reached.

Saved values are looked at without running hooks of the user's (`saved_tensors_hooks`), and so that no new handle stays
behind where torch allows it.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from tenure import heap
from tenure.frameworks.base import Inner
from tenure.frameworks.torch import counts
from tenure.frameworks.torch.sealed import EndedTensor

_MOST_NODES = 300_000
_SHOWN = 3

Wanted = Callable[[Any], bool]


class Graph:
    """The nodes that these tensors lead to, except those whose ids are in `without`.

    Everything in it is known by id and kept in `keep`, one list, until `clear`.
    """

    def __init__(self, tensors: Iterable[torch.Tensor], without: set[int]) -> None:
        self.keep: list[Any] = []
        self._objects: dict[int, int] = {}  # id to place in `keep`
        self._before: dict[int, list[int]] = {}  # a node's id to those of the nodes that lead to it
        self._tensors: dict[int, list[int]] = {}  # a node's id to those of the tensors whose grad_fn it is
        self._fields: dict[type, list[str]] = {}
        with torch._C.DisableTorchFunction():
            queue: deque[Any] = deque()
            for tensor in tensors:
                node = None if id(tensor) in without else grad_fn(tensor)
                if node is not None:
                    self._tensors.setdefault(id(node), []).append(self._add(tensor))
                    if id(node) not in self._objects:
                        self._add(node)
                        queue.append(node)
            self._walk(queue)

    def _add(self, thing: Any) -> int:
        if id(thing) not in self._objects:
            self._objects[id(thing)] = len(self.keep)
            self.keep.append(thing)
        return id(thing)

    def _walk(self, queue: deque[Any]) -> None:
        while queue and len(self.keep) < _MOST_NODES:
            node = queue.popleft()
            for after, _ in node.next_functions:
                if after is None:
                    continue
                self._before.setdefault(id(after), []).append(id(node))
                if id(after) not in self._objects:
                    self._add(after)
                    queue.append(after)

    def clear(self) -> None:
        """Let go of everything."""
        self.keep.clear()

    def has(self, thing: object) -> bool:
        """Whether this is one of the nodes: a function written in Python is an object like others."""
        return id(thing) in self._before or id(thing) in self._tensors

    def savers(self, wanted: Wanted) -> list[tuple[Any, str, int]]:
        """The nodes that hold what is `wanted`: the node, the name under which it does, the id of what it holds."""
        found: list[tuple[Any, str, int]] = []
        with torch._C.DisableTorchFunction():
            for node in list(self.keep):
                if not isinstance(node, torch.Tensor):
                    found.extend((node, name, id(value)) for name, value in self._saved(node) if wanted(value))
        return found

    def leaders(self, nodes: Iterable[Any]) -> list[tuple[Any, Any, str]]:
        """The tensors from which some of these nodes are reached: the tensor, the nearest such node, and the way.

        Nearest first; the way reads `autograd SumBackward0 → MulBackward0`.
        """
        found: list[tuple[Any, Any, str]] = []
        came = {id(node): 0 for node in nodes}
        queue = deque(came)
        while queue:
            key = queue.popleft()
            if key in self._tensors:
                trail = [key]
                while came[trail[-1]]:
                    trail.append(came[trail[-1]])
                node, way = self._object(trail[-1]), self._way(trail)
                found.extend((self._object(tensor), node, way) for tensor in self._tensors[key])
            for before in self._before.get(key, ()):
                if before not in came:
                    came[before] = key
                    queue.append(before)
        return found

    def _object(self, key: int) -> Any:
        return self.keep[self._objects[key]]

    def _way(self, trail: list[int]) -> str:
        names = [type(self._object(key)).__name__ for key in trail]
        if len(names) > _SHOWN:
            names = [*names[: _SHOWN - 1], f"… {len(names) - _SHOWN} nodes …", names[-1]]
        return f"autograd {' → '.join(names)}"

    def fields(self, kind: type) -> list[str]:
        """The names under which nodes of this class keep what they saved."""
        found = self._fields.get(kind)
        if found is None:
            found = self._fields[kind] = sorted(
                (name for name in dir(kind) if name.startswith("_raw_saved_")),
                key=lambda name: (name != "_raw_saved_self", name),
            )
        return found

    def _saved(self, node: Any) -> Iterator[tuple[str, Any]]:
        kind: Any = type(node)
        for field in self.fields(kind):
            name = field.removeprefix("_raw_saved_")
            raw = _raw(node, field)
            many = isinstance(raw, (tuple, list))
            for index, one in enumerate(raw if many else (raw,)):
                value = _unpack(node, name, one, index if many else None)
                if value is not None:
                    yield f"saved {name}[{index}]" if many else f"saved {name}", value
        if kind.__name__ == "AccumulateGrad":
            yield "variable", node.variable


def _raw(node: Any, field: str) -> Any:
    try:
        return getattr(node, field)
    except RuntimeError:  # freed by backward
        return None


def _unpack(node: Any, name: str, raw: Any, index: int | None) -> Any:
    """The saved tensor, or the object that a hook made of it; None if it has been freed."""
    if raw is None:
        return None
    if getattr(raw, "unpack_hook", None) is not None:
        return raw.data
    try:
        # Of an op's own output this makes a handle that goes at once, `raw.data` one that stays.
        value = node.saved_tensors if name == "tensors" else getattr(node, f"_saved_{name}")
        return value if index is None else value[index]
    except RuntimeError:  # freed by backward, or changed in place since it was saved
        return getattr(raw, "data", None)


def grad_fn(tensor: torch.Tensor) -> Any:
    """The node that made a tensor, if there is one and torch lets it be seen."""
    if isinstance(tensor, EndedTensor):
        return None
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view whose base was changed in a way autograd forbids
        return None


def idle(live: list[torch.Tensor]) -> set[int]:
    """The ids of those that only native code holds: activations that the graph saved, whose names are gone.

    Nobody is reached through them who is not reached through the tensor whose graph it is. Gradients are not among them.
    """
    found: set[int] = set()
    with torch._C.DisableTorchFunction():
        for index in range(len(live)):
            # One reference is the list's, one the argument's.
            if sys.getrefcount(live[index]) - 2 <= kept(live[index]):
                found.add(id(live[index]))
    suspects = [tensor for tensor in live if id(tensor) in found and grad_fn(tensor) is not None]
    return found.difference(id(gradient) for gradient, _ in grads(live, suspects))


def grads(tensors: Iterable[torch.Tensor], of: list[torch.Tensor]) -> list[tuple[Any, Any]]:
    """Pairs of a tensor in `of` and the tensor whose `.grad` it is.

    Only where the shapes agree is `.grad` read: reading makes a handle that stays.
    """
    with torch._C.DisableTorchFunction():
        shapes = {tuple(tensor.shape) for tensor in of if not tensor.is_nested}
        known = {id(tensor): tensor for tensor in of}
        found: list[tuple[Any, Any]] = []
        for tensor in tensors:
            if isinstance(tensor, EndedTensor) or not tensor.requires_grad or tensor.is_nested or is_lazy(tensor):
                continue
            if tuple(tensor.shape) not in shapes:
                continue
            if (tensor.is_leaf or tensor.retains_grad) and id(tensor.grad) in known:
                found.append((known[id(tensor.grad)], tensor))
        return found


def inner(tensor: torch.Tensor) -> list[Inner]:
    """Which nodes hold this tensor's bytes, each by way of the nearest live tensors that lead there."""
    with torch._C.DisableTorchFunction():
        address = storage(tensor)

    def same(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.layout == torch.strided and storage(value) == address

    live = [thing for thing in heap.objects() if issubclass(type(thing), torch.Tensor)]
    graph = Graph(live, idle(live))
    savers = {id(node): name for node, name, _ in graph.savers(same)}
    nodes = [node for node, _, _ in graph.savers(same)]
    found = [Inner(f"{way} → {savers[id(node)]}", "autograd", leader) for leader, node, way in graph.leaders(nodes)]
    graph.clear()
    return found


def saved_by_functions(tensors: list[torch.Tensor]) -> dict[int, str]:
    """Those of the handles (by id) that a live autograd function written in Python saved, and that function's name."""
    wanted = set(map(id, tensors))
    found: dict[int, str] = {}
    with torch._C.DisableTorchFunction():
        for node in heap.instances(heap.family(torch._C._FunctionBase)):
            for index, raw in enumerate(_raw(node, "_raw_saved_tensors") or ()):
                value = _unpack(node, "tensors", raw, index)
                if id(value) in wanted:
                    found[id(value)] = type(node).__name__
    return found


def held(things: list[Any]) -> set[int]:
    """The ids of those that a live graph refers to below Python: hooks, and what hooks for saved tensors made."""
    found = {id(thing) for thing in things if _are_hooks(thing)}
    wanted = set(map(id, things)) - found
    if not wanted:
        return found
    graph = Graph(heap.instances(heap.family(torch.Tensor, without=[EndedTensor])), set())
    with torch._C.DisableTorchFunction():
        for node in graph.keep:
            if isinstance(node, torch.Tensor):
                continue
            for field in graph.fields(type(node)):
                raw = _raw(node, field)
                for one in raw if isinstance(raw, (tuple, list)) else (raw,):
                    unpack = getattr(one, "unpack_hook", None)
                    if unpack is not None:
                        found.update(wanted & {id(unpack), id(one.data)})
    node = raw = one = unpack = None
    graph.clear()
    return found


def is_asked_by_backward(thing: Any) -> bool:
    """Whether it is a function written in Python that is in a graph, or a tensor with hooks for its gradient."""
    kind = type(thing)
    if issubclass(kind, torch._C._FunctionBase):
        return True
    return issubclass(kind, torch.Tensor) and bool(hooks(thing))


def _are_hooks(thing: Any) -> bool:
    # The hooks of a tensor or a node: functions by the number of their handle.
    if type(thing) is not OrderedDict:
        return False
    return bool(thing) and all(type(key) is int and callable(hook) for key, hook in thing.items())


def storage(tensor: torch.Tensor) -> int:
    """The address by which a storage is known."""
    with torch._C.DisableTorchFunction():
        return int(tensor.untyped_storage()._cdata) if counts.has_storage(tensor) else 0


def unexplained(
    tensors: list[torch.Tensor],
    live: list[torch.Tensor],
    handles: list[torch.Tensor],
    saved: dict[int, int],
    exports: int,
) -> int:
    """The most references to one of the tensors or its storage that are left when all that are known are subtracted.

    Arguments:
        tensors: strided tensors with a storage.
        live: all tensors there are.
        handles: those that share the tensors' storages.
        saved: how often the graph saved each handle (by id), and the storages by others than handles (0).
        exports: how many arrays were made on the storages.
    """
    count = getattr(torch._C, "_storage_Use_Count", None)
    most = 0
    with torch._C.DisableTorchFunction():
        strided = [tensor for tensor in tensors if tensor.layout == torch.strided]
        gradients = {id(gradient) for gradient, _ in grads(live, strided)}
        same: dict[int, list[bool]] = {}
        for handle in handles:
            if handle.layout == torch.strided:
                same.setdefault(storage(handle), []).append(handle._is_view())
        for tensor in strided:
            whole = tensor.untyped_storage()
            views = same.get(whole._cdata, [tensor._is_view()])
            # A view holds its base, and that may have no handle. It is not asked for: that would make one which stays.
            bases = 1 if all(views) else 0
            users, left = counts.handle_users(tensor), 0
            if users is not None:
                known = 1 + (id(tensor) in gradients) + saved.get(id(tensor), 0)
                known += 0 if tensor._is_view() else sum(views) + saved.get(0, 0)
                left = max(0, users - known - exports)
            if count is not None:
                # One of the users is `whole`, the storage's one Python object.
                left += max(0, int(count(whole._cdata)) - 1 - len(views) - bases - saved.get(0, 0))
            most = max(most, left)
        strided.clear()
    return most


def kept(tensor: torch.Tensor) -> bool:
    """Whether native users of the tensor hold its handle."""
    return not isinstance(tensor, EndedTensor) and counts.kept_by_native([tensor])[0]


def hooks(tensor: torch.Tensor) -> Any:
    """The dict of a tensor's own hooks, if it has any."""
    with torch._C.DisableTorchFunction():
        return None if isinstance(tensor, EndedTensor) else tensor._backward_hooks
