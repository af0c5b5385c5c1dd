"""The part of the heap above some objects: who refers to them, who refers to those, and so on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from types import AsyncGeneratorType, BuiltinFunctionType, CodeType, CoroutineType, FrameType, GeneratorType, ModuleType
from typing import Any, Protocol

from tenure.analysis.holders import census as unlisted
from tenure.analysis.holders import plain
from tenure.analysis.holders.roots import Roots
from tenure.heap import objects, referents, referrers
from tenure.model import Link


class Native(Protocol):
    """Asked about holds that no collector shows."""

    def parents(self, things: list[object]) -> list[tuple[object, object, tuple[Link, ...]]]:
        """Child, parent, and how that hold is told."""
        ...

    def tapes(self, things: list[object]) -> list[tuple[object, object, tuple[Link, ...]]]:
        """As `parents`, for objects with references that nothing explains."""
        ...

    def kept(self, thing: object) -> int:
        """How many of an object's references are native code's."""
        ...


_SECONDS = 1.0
_CHUNK = 100  # objects asked about in one pass over the heap; the pass slows down with their number
_MANY = 250  # from here on a pass in Python that asks about all of them is faster
# Names come from a module's dict, not from the module, which must not be looked into: see `tenure.heap.referents`.
_NEVER = (ModuleType, CodeType, BuiltinFunctionType)
_GENERATORS: dict[type, str] = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}


class Heap:
    """Objects by id, and for each child its parents. Keeps what it saw alive until `clear`."""

    def __init__(self, roots: Roots, ignore: Iterable[int], native: Native) -> None:
        self.objects: dict[int, object] = {}
        self.parents: dict[int, dict[int, tuple[Link, ...]]] = {}
        self.ranks: dict[int, int | None] = {}
        self.expanded: set[int] = set()
        self._roots = roots
        self._census: unlisted.Census | None = None
        self._seen: dict[int, int] = {}
        self._plain: dict[tuple[int, int], bool] = {}
        self._native = native
        self._deadline = 0.0
        self._ignore = {*ignore, id(self.objects), id(roots.keep)}

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
        known = self.parents.setdefault(child, {})
        known[key] = links or known.get(key, ())
        return key

    def is_plain(self, child: int, parent: int) -> bool:
        """Whether the user would think of this hold first: not by way of a graph, nor as the key of a dict."""
        if (child, parent) not in self._plain:
            owner, value = self.objects[parent], self.objects[child]
            graph = any(link.kind == "autograd" for link in self.parents[child][parent])
            key = plain.is_a(owner, dict) and plain.has_key(owner, value) and not plain.key_of(owner, value)[0]
            self._plain[child, parent] = not graph and not key
        return self._plain[child, parent]

    def start(self) -> None:
        """Begin to count the time that an exploration may take: the processor's, so that a busy machine finds no less."""
        self._deadline = time.thread_time() + _SECONDS

    @property
    def late(self) -> bool:
        """Whether the search has taken as long as it may."""
        return time.thread_time() > self._deadline

    def is_end(self, key: int) -> bool:
        """Whether there is no point in asking who refers to this object: the user's names and all classes are ends."""
        thing = self.objects[key]
        return self.ranks[key] == 0 or self._roots.is_space(thing) or plain.is_a(thing, type)

    def expand(self, keys: list[int]) -> None:
        """Find the parents of these objects."""
        if len(keys) >= _MANY:
            self._ask(set(keys), _scan(set(keys)))
        else:
            for start in range(0, len(keys), _CHUNK):
                if start and self.late:
                    break
                chunk = set(keys[start : start + _CHUNK])
                batch = [self.objects[key] for key in chunk]
                found = referrers(batch)
                batch.clear()
                self._ask(chunk, found)
        bare = {key for key in keys if key in self.expanded and not self.parents.get(key) and self.unseen(key) > 0}
        for ask, chosen in ((self._native.parents, keys), (self._native.tapes, bare)):
            asked = [self.objects[key] for key in chosen]
            for child, parent, links in ask(asked):
                self.link(id(child), parent, links)
            asked.clear()

    def _ask(self, children: set[int], found: list[Any]) -> None:
        self.expanded |= children
        if self._census is not None:
            found.extend(self._census.holding(children))
        self._connect(children, found)

    def take(self, census: unlisted.Census) -> None:
        """Add what the collector does not list to all that has been asked about so far, and from now on."""
        self._census = census
        self._ignore.update(census.own)
        self._connect(self.expanded, census.holding(self.expanded))

    def unseen(self, key: int) -> int:
        """How many references to an object that was asked about come from where neither collector nor frames show."""
        # One reference is the argument's.
        seen = 1 + self._seen.get(key, 0) + self._roots.count(key)
        return sys.getrefcount(self.objects[key]) - seen - self._native.kept(self.objects[key])

    def _connect(self, children: set[int], found: list[Any]) -> None:
        for parent in found:
            if plain.is_a(parent, _NEVER):
                continue
            held = [key for part in unlisted.contents(parent) if (key := id(part)) in children]
            for key in held:
                self._seen[key] = self._seen.get(key, 0) + 1
            if held and id(parent) not in self._ignore and not self._is_noise(parent):
                for key in set(held):
                    self.link(key, parent)
        found.clear()

    def _is_noise(self, parent: object) -> bool:
        if type(parent) is FrameType:
            return id(parent) in self._roots.running
        # Of a generator that is running, the frame's variables are beginnings already.
        frame = next((name for kind, name in _GENERATORS.items() if plain.exactly(parent, (kind,))), None)
        return frame is not None and id(getattr(parent, frame)) in self._roots.running


def _scan(keys: set[int]) -> list[Any]:
    return [thing for thing in objects() if not keys.isdisjoint(map(id, referents([thing])))]
