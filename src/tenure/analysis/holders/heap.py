"""The part of the heap above some objects: who refers to them, who refers to those, and so on."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from types import AsyncGeneratorType, BuiltinFunctionType, CodeType, CoroutineType, FrameType, GeneratorType, ModuleType
from typing import Any

from tenure.analysis.holders import census as unlisted
from tenure.analysis.holders import plain
from tenure.analysis.holders.roots import Roots
from tenure.model import Link

# A parent that no collector shows, and how its hold on the child is told.
Native = Callable[[object], Iterable[tuple[object, tuple[Link, ...]]]]

_CHUNK = 100  # objects asked about in one pass over the heap; the pass slows down with their number
_MANY = 400  # from here on a pass in Python that asks about all of them is faster
_NEVER = (ModuleType, CodeType, BuiltinFunctionType)
_GENERATORS = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}


class Heap:
    """Objects by id, and for each child its parents. Keeps what it saw alive until `clear`."""

    def __init__(self, roots: Roots, ignore: Iterable[int], census: unlisted.Census, native: Native, deadline: float) -> None:
        self.objects: dict[int, object] = {}
        self.parents: dict[int, dict[int, tuple[Link, ...]]] = {}
        self.ranks: dict[int, int | None] = {}
        self.expanded: set[int] = set()
        self._roots = roots
        self._census = census
        self._native = native
        self._deadline = deadline
        self._ignore = {*ignore, *census.own, id(self.objects), id(roots.keep), id(self.__dict__), id(self)}

    def clear(self) -> None:
        """Let go of everything."""
        self.objects.clear()

    def add(self, thing: object) -> int:
        """Take an object in."""
        key = id(thing)
        if key not in self.objects:
            self.objects[key] = thing
            self.ranks[key] = self._roots.rank(thing)
        return key

    def link(self, child: int, parent: object, links: tuple[Link, ...] = ()) -> int:
        """Note that `parent` refers to `child`."""
        key = self.add(parent)
        self.parents.setdefault(child, {}).setdefault(key, links)
        return key

    @property
    def late(self) -> bool:
        """Whether the search has taken as long as it may."""
        return time.monotonic() > self._deadline

    def is_end(self, key: int) -> bool:
        """Whether there is no point in asking who refers to this object: the user's names and all classes are ends."""
        thing = self.objects[key]
        return self.ranks[key] == 0 or self._roots.is_space(thing) or plain.is_a(thing, type)

    def expand(self, keys: list[int]) -> None:
        """Find the parents of these objects."""
        if len(keys) >= _MANY:
            self._connect(keys, _scan(set(keys)))
        else:
            for start in range(0, len(keys), _CHUNK):
                if start and self.late:
                    break
                chunk = keys[start : start + _CHUNK]
                batch = [self.objects[key] for key in chunk]
                self._ignore.add(id(batch))
                found = gc.get_referrers(*batch)
                self._ignore.discard(id(batch))
                batch.clear()
                self._connect(chunk, found)
        for key in keys:
            for parent, links in self._native(self.objects[key]):
                self.link(key, parent, links)

    def _connect(self, keys: list[int], found: list[Any]) -> None:
        children = set(keys)
        self.expanded |= children
        found.extend(self._census.holding(children))
        for parent in found:
            if id(parent) in self._ignore or parent is found or self._is_noise(parent):
                continue
            for held in {id(part) for part in unlisted.contents(parent)} & children:
                if held != id(parent):
                    self.link(held, parent)
        found.clear()

    def _is_noise(self, parent: object) -> bool:
        kind = type(parent)
        if kind is FrameType:
            return id(parent) in self._roots.running
        if kind in _GENERATORS:
            # Of one that is running, the frame's variables are beginnings already.
            return id(getattr(parent, _GENERATORS[kind])) in self._roots.running
        return plain.is_a(parent, _NEVER)


def _scan(keys: set[int]) -> list[Any]:
    return [thing for thing in gc.get_objects() if not keys.isdisjoint(map(id, gc.get_referents(thing)))]
