"""Holds that the collector cannot show: autograd's, gradients', arrays' on a tensor's memory, storages'."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from collections.abc import Iterable
from itertools import compress
from typing import Any

from tenure import frameworks
from tenure.frameworks import host
from tenure.frameworks.base import Framework
from tenure.model import Link

Hold = tuple[object, object, tuple[Link, ...]]  # child, parent, how that is told


class Natives:
    """What the frameworks know about holds in native code. Keeps tensors in lists named by `own` until `clear`."""

    def __init__(self, keys: set[object]) -> None:
        self._keys = keys
        self.handles: list[Any] = []
        self.saved: dict[int, int] = {}  # how often autograd saved a handle (by id), or the buffer by another (0)
        self._live: list[Any] = []
        self._lenders: list[Any] = []  # memory views and storages
        self._graph: Any = None
        self._autograd: Any = None
        self._sort(frameworks.awake())

    def _sort(self, awake: tuple[Framework, ...]) -> None:
        """One pass over the heap for everything that could share the buffers."""
        names = {key[0] if isinstance(key, tuple) else None for key in self._keys}
        asked = [framework for framework in awake if framework.name in names or None in names]
        if any(framework.name == "torch" for framework in asked):
            from tenure.frameworks.torch import autograd

            self._autograd = autograd
        storage: Any = getattr(sys.modules.get("torch"), "UntypedStorage", None)
        objects = gc.get_objects()
        kinds = set(map(type, objects))
        tensors = {kind for kind in kinds if any(framework.owns(kind) for framework in asked)}
        lenders = {memoryview, storage}
        wanted = tensors | lenders
        for thing in compress(objects, map(wanted.__contains__, map(type, objects))):
            if type(thing) in lenders:
                self._lenders.append(thing)
                continue
            self._live.append(thing)
            if self.has_key(thing):
                self.handles.append(thing)
        if self._autograd is not None:
            torch = next(framework for framework in asked if framework.name == "torch")
            self._graph = self._autograd.Graph(thing for thing in self._live if torch.owns(type(thing)))

    @property
    def own(self) -> tuple[int, ...]:
        """The ids of the lists in which tensors are kept."""
        graph = () if self._graph is None else (id(self._graph.keep),)
        return (id(self.handles), id(self._live), id(self._lenders), *graph)

    def clear(self) -> None:
        """Let go of everything."""
        for kept in (self.handles, self._live, self._lenders):
            kept.clear()
        if self._graph is not None:
            self._graph.clear()

    def has_key(self, thing: Any) -> bool:
        """Whether this is a tensor with one of the wanted buffers."""
        framework = frameworks.owner(thing)
        return framework is not None and any(buffer.key in self._keys for buffer in framework.buffers(thing))

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
        found: dict[int, tuple[object, tuple[Link, ...]]] = {}
        for node, name, _ in savers:
            for leader, way in self._graph.leaders(node):
                links = (Link(way, "autograd"), *((Link(name, "saved"),) if name else ()))
                found.setdefault(id(leader), (leader, links))
        return list(found.values())

    def parents(self, things: list[object]) -> list[Hold]:
        """Who holds these objects natively: the graph that saved a tensor or runs a function, a tensor's gradient."""
        if self._graph is None:
            return []
        found: list[Hold] = []
        tensors = {id(thing): thing for thing in things if getattr(frameworks.owner(thing), "name", "") == "torch"}
        for thing in things:
            if self._graph.has(thing):
                found.extend((thing, leader, links) for leader, links in self._lead([(thing, "", 0)]))
        hooks = {id(thing): thing for thing in things if type(thing) is OrderedDict}
        for tensor in self._live if hooks else ():
            hook = self._autograd.hooks(tensor)
            if id(hook) in hooks:
                found.append((hook, tensor, (Link("._backward_hooks", "hook"),)))
        hooks.clear()
        if tensors:
            wanted = list(tensors.values())
            pairs = self._autograd.grads(self._live, wanted)
            found.extend((child, parent, (Link(".grad", "grad"),)) for child, parent in pairs)
            wanted.clear()
            # Of the buffers asked about, `savers` has told already.
            rest = {key for key, thing in tensors.items() if not self.has_key(thing)}
            for saver in self._graph.savers(lambda value: id(value) in rest) if rest else ():
                found.extend((tensors[saver[2]], leader, links) for leader, links in self._lead([saver]))
        tensors.clear()
        return found

    def lenders(self) -> list[tuple[object, str]]:
        """Memory views and storages on the wanted buffers, each with its kind."""
        spans = self.spans()
        found: list[tuple[object, str]] = []
        for thing in self._lenders:
            if type(thing) is memoryview:
                if any(host.overlaps(thing, *span) for span in spans):
                    found.append((thing, "memoryview"))
            elif ("torch", thing._cdata) in self._keys:
                found.append((thing, "storage"))
        return found

    def spans(self) -> set[tuple[int, int]]:
        """The host memory behind the wanted buffers, as far as it is known."""
        found: set[tuple[int, int]] = set()
        for key in self._keys:
            match key:
                case ("jax", _, int(start), int(nbytes)) | ("tensorflow" | "numpy", int(start), int(nbytes)):
                    found.add((start, start + nbytes))
                case _:
                    continue
        if self._autograd is not None:
            found.update(span for handle in self.handles if (span := self._autograd.span(handle)) is not None)
        return found

    def unknown(self, handle: Any, exports: int) -> int:
        """How many native references to this handle, or its bytes, nothing found so far explains; torch counts them."""
        framework = frameworks.owner(handle)
        if framework is None or framework.name != "torch" or self._autograd is None:
            return 0
        return int(self._autograd.unexplained(handle, self._live, self.handles, self.saved, exports))

    def kept(self, thing: Any) -> int:
        """How many references to an object are native users' own (torch counts all of a handle's as one)."""
        framework = frameworks.owner(thing)
        if framework is None or framework.name != "torch" or self._autograd is None:
            return 0
        return int(self._autograd.kept(thing))
