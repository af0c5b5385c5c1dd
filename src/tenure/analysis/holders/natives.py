"""Holds that the collector cannot show: autograd's, gradients', arrays' on a tensor's memory, storages'."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from tenure import frameworks, heap
from tenure.analysis.holders import plain
from tenure.frameworks import host
from tenure.frameworks.base import Buffer, Framework
from tenure.frameworks.host import Span
from tenure.model import Link

Hold = tuple[object, object, tuple[Link, ...]]  # child, parent, how that is told


class Natives:
    """What the frameworks know about holds in native code. Keeps tensors in lists named by `own` until `clear`."""

    def __init__(self, buffers: list[Buffer]) -> None:
        self._keys = {buffer.key for buffer in buffers}
        self._spans = {buffer.span for buffer in buffers if buffer.span is not None}
        self._owners: dict[int, str] = {}
        self.handles: list[Any] = []
        self.saved: dict[int, int] = {}  # how often autograd saved a handle (by id), or the buffer by another (0)
        self._live: list[Any] = []  # torch's tensors
        self._others: list[Any] = []
        self._lenders: list[Any] = []  # memory views and storages
        self._parts: list[Any] = []  # by which JAX's arrays refer to their own parts
        self._graph: Any = None
        self._autograd: Any = None
        self._tapes: Any = None
        self._sort(frameworks.awake())

    def _sort(self, awake: tuple[Framework, ...]) -> None:
        """One pass over the heap for everything that could share the buffers."""
        names = {_name(key) for key in self._keys}
        asked = {framework.name: framework for framework in awake if framework.name in names or None in names}
        objects = heap.objects()
        # Known by their ids: a metaclass may have a hash of its own.
        self._owners.update(dict.fromkeys((id(memoryview), id(_storage_class())), ""))
        for kind in dict(zip(map(id, map(type, objects)), map(type, objects), strict=True)).values():
            name = next((name for name, framework in asked.items() if framework.owns(kind)), None)
            if name is not None:
                self._owners[id(kind)] = name
        shelves = {"": self._lenders, "torch": self._live}
        for thing in plain.of(self._owners, objects):
            shelves.get(self._owner(thing), self._others).append(thing)
        objects.clear()
        thing = None  # or it would count as a reference
        if "torch" in asked:
            from tenure.frameworks.torch import autograd

            self._autograd = autograd
            self._graph = autograd.Graph(self._live, autograd.idle(self._live))
        if "tensorflow" in asked:
            from tenure.frameworks import tensorflow_tapes

            self._tapes = tensorflow_tapes
        self.handles.extend(thing for thing in (*self._live, *self._others) if self.has_key(thing))
        if "jax" in asked:
            from tenure.frameworks import jax

            self._parts.extend(jax.own_references([thing for thing in self._others if self._owner(thing) == "jax"]))

    @property
    def own(self) -> tuple[int, ...]:
        """The ids of the lists in which tensors are kept, here and by the tensors themselves."""
        graph = () if self._graph is None else (id(self._graph.keep),)
        return (*map(id, (self.handles, self._live, self._others, self._lenders, self._parts, *self._parts)), *graph)

    @property
    def counts(self) -> bool:
        """Whether native references are counted, so that what nothing explains shows."""
        return self._autograd is not None

    def clear(self) -> None:
        """Let go of everything."""
        for kept in (self.handles, self._live, self._others, self._lenders, self._parts):
            kept.clear()
        if self._graph is not None:
            self._graph.clear()

    def has_key(self, thing: Any) -> bool:
        """Whether this is a tensor with one of the wanted buffers."""
        framework = frameworks.owner(thing)
        return framework is not None and any(buffer.key in self._keys for buffer in framework.buffers(thing))

    def _is_torch(self, thing: object) -> bool:
        return self._owner(thing) == "torch"

    def _owner(self, thing: object) -> str:
        return self._owners.get(id(type(thing)), "")

    def savers(self) -> list[tuple[object, tuple[Link, ...]]]:
        """The live tensors whose graph saved one of the wanted buffers."""
        if self._graph is None:
            return []
        known = set(map(id, self.handles))

        def wanted(value: Any) -> bool:
            if not self.has_key(value):
                return False
            key = id(value) if id(value) in known else 0
            self.saved[key] = self.saved.get(key, 0) + 1
            return True

        return self._lead(self._graph.savers(wanted))

    def _lead(self, savers: Iterable[tuple[Any, str, int]]) -> list[tuple[object, tuple[Link, ...]]]:
        names: dict[int, str] = {}
        nodes: list[Any] = []
        for node, name, _ in savers:
            if names.setdefault(id(node), name) == name:
                nodes.append(node)
        found: dict[int, tuple[object, tuple[Link, ...]]] = {}
        for leader, node, way in self._graph.leaders(nodes):
            name = names[id(node)]
            found.setdefault(id(leader), (leader, (Link(way, "autograd"), *((Link(name, "saved"),) if name else ()))))
        return list(found.values())

    def parents(self, things: list[object]) -> list[Hold]:
        """Who holds these objects natively: the graph that saved a tensor or runs a function, a tensor's gradient."""
        if self._graph is None:
            return []
        found: list[Hold] = []
        for thing in things:
            if self._graph.has(thing):
                found.extend((thing, leader, links) for leader, links in self._lead([(thing, "", 0)]))
        found.extend(self._hooks([thing for thing in things if type(thing) is OrderedDict]))
        found.extend(self._tensors([thing for thing in things if self._is_torch(thing)]))
        return found

    def tapes(self, things: list[object]) -> list[Hold]:
        """The gradient tapes that hold these objects, which something unseen refers to."""
        return self._tapes.savers(things) if self._tapes is not None else []

    def _hooks(self, things: list[object]) -> Iterable[Hold]:
        wanted = set(map(id, things))
        for tensor in self._live if wanted else ():
            hooks = self._autograd.hooks(tensor)
            if id(hooks) in wanted:
                yield hooks, tensor, (Link("._backward_hooks", "hook"),)

    def _tensors(self, things: list[Any]) -> Iterable[Hold]:
        if not things:
            return
        for child, parent in self._autograd.grads(self._live, things):
            yield child, parent, (Link(".grad", "grad"),)
        # Of the buffers asked about, `savers` tells.
        rest = {id(thing): thing for thing in things if not self.has_key(thing)}
        savers: dict[int, list[tuple[Any, str, int]]] = {}
        for saver in self._graph.savers(_among(rest)) if rest else ():
            savers.setdefault(saver[2], []).append(saver)
        for key, nodes in savers.items():
            for leader, links in self._lead(nodes):
                yield rest[key], leader, links

    def lenders(self) -> list[tuple[object, str]]:
        """Memory views and storages on the wanted buffers, each with its kind."""
        spans = self.spans()
        found: list[tuple[object, str]] = []
        for thing in self._lenders:
            if type(thing) is memoryview:
                if any(reads(thing, span) for span in spans):
                    found.append((thing, "memoryview"))
            elif ("torch", thing._cdata) in self._keys:
                found.append((thing, "storage"))
        return found

    def spans(self) -> set[Span]:
        """Where the wanted buffers lie, as far as that is known."""
        return {buffer.span for buffer in self._buffers() if buffer.span is not None} | self._spans

    def _buffers(self) -> Iterable[Buffer]:
        for handle in self.handles:
            framework = frameworks.owner(handle)
            for buffer in framework.buffers(handle) if framework is not None else ():
                if buffer.key in self._keys:
                    yield buffer

    def strangers(self) -> list[tuple[object, str]]:
        """Other frameworks' tensors on the same memory: made with DLPack."""
        spans, names = self.spans(), set(self._owners.values())
        found: list[tuple[object, str]] = []
        for framework in frameworks.awake() if spans else ():
            for tensor in framework.live() if framework.name not in names else ():
                places = [buffer.span for buffer in framework.buffers(tensor) if buffer.span is not None]
                if any(_overlap(place, span) for place in places for span in spans):
                    found.append((tensor, f"{framework.name} tensor"))
        return found

    def unknown(self, things: list[Any], exports: int) -> int:
        """How many native references to one of these handles, or its bytes, nothing found so far explains.

        Only torch counts them; of the others nothing is claimed.
        """
        if self._autograd is None:
            return 0
        tensors = [thing for thing in things if self._is_torch(thing) and self.has_key(thing)]
        return int(self._autograd.unexplained(tensors, self._live, self.handles, self.saved, exports))

    def kept(self, thing: Any) -> int:
        """How many references to an object are native users' own (torch counts all of a handle's as one)."""
        return int(self._autograd.kept(thing)) if self._autograd is not None and self._is_torch(thing) else 0


def reads(view: object, span: Span) -> bool:
    """Whether an array, memory view or capsule lies on this memory."""
    return span[0] == "host" and host.overlaps(view, *span[1:])


def _overlap(one: Span, other: Span) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _name(key: Any) -> str | None:
    """The framework that a key belongs to, if it tells."""
    return str(key[0]) if plain.is_tuple(key) else None


def _among(things: dict[int, Any]) -> Callable[[object], bool]:
    return lambda value: id(value) in things


def _storage_class() -> Any:
    return getattr(sys.modules.get("torch"), "UntypedStorage", memoryview)
