"""The search: from the handles of some buffers to the names that keep them."""

from __future__ import annotations

import contextvars
import dataclasses
import gc
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

from tenure import sites
from tenure.analysis.holders import paths, plain
from tenure.analysis.holders.census import Census
from tenure.analysis.holders.heap import Heap
from tenure.analysis.holders.names import Namer
from tenure.analysis.holders.natives import Natives, reads
from tenure.analysis.holders.roots import Roots
from tenure.frameworks import host
from tenure.frameworks.base import Buffer
from tenure.heap import referrers
from tenure.model import Holder, Link

_MOST = 100  # handles that are looked at of a container's; more would find more of the same holders


class _Buffer:
    """Stands for bytes that something holds without a handle."""


def find(
    handles: list[Any], buffers: Iterable[Buffer], ignore: frozenset[int] = frozenset(), limit: int = 8
) -> list[Holder]:
    """Who keeps these handles, and others that share their buffers, alive.

    Arguments:
        handles: tensors asked about; may be empty when they have ended and only their buffers are known.
        buffers: their buffers.
        ignore: ids of objects whose references do not count.
        limit: the most holders to tell.
    """
    from tenure.lifetime import regions

    regions.current()  # the birth hook's Python twin hides the newest handle from the collector until it is asked
    collecting = gc.isenabled()
    gc.disable()  # the search allocates much; a collection would end what it is about to name
    try:
        # In a context of its own: handles that become visible on the way are nobody's births.
        return contextvars.Context().run(_find, handles, list(buffers), ignore, limit)
    finally:
        if collecting:
            gc.enable()


def _find(handles: list[Any], buffers: list[Buffer], ignore: frozenset[int], limit: int) -> list[Holder]:
    with ExitStack() as stack:
        natives = Natives(buffers)
        stack.callback(natives.clear)
        roots = Roots()
        stack.callback(roots.clear)
        heap = Heap(roots, {*ignore, *natives.own, id(handles)}, natives)
        stack.callback(heap.clear)
        search = _Search(natives, roots, heap)
        stack.callback(search.clear)
        return search.run(handles, limit)


class _Search:
    """One search: targets, what is known to share their bytes, and the paths to all of it."""

    def __init__(self, natives: Natives, roots: Roots, heap: Heap) -> None:
        self._natives = natives
        self._roots = roots
        self._heap = heap
        self._census: Census | None = None
        self._kinds: dict[int, str] = {}
        self._namer = Namer(self._known)

    def clear(self) -> None:
        """Let go of everything."""
        if self._census is not None:
            self._census.clear()

    def run(self, handles: list[Any], limit: int) -> list[Holder]:
        """The best holders."""
        heap = self._heap
        asked = dict.fromkeys(heap.add(handle) for handle in handles[:_MOST])
        others = dict.fromkeys(key for key in map(heap.add, self._natives.handles[:_MOST]) if key not in asked)
        buffer = heap.add(_Buffer())
        self._lead(buffer)
        self._lend(buffer, self._natives.lenders(), asked)
        if not self._natives.counts:
            self._lend(buffer, self._natives.strangers(), asked)
        targets = [*asked, *others]
        paths.explore(heap, [*targets, buffer])
        unknown = self._unknown(targets, 0)
        if unknown or self._needs_census(targets):
            exports = self._take_census(buffer, asked)
            paths.explore(heap, [*targets, buffer])
            unknown = self._unknown(targets, exports)
        found = [*self._variables(asked, others), *self._paths([*targets, buffer], others, 4 * limit)]
        holders = _distinct(holder for _, holder in sorted(found, key=lambda pair: pair[0]))
        if unknown:
            noun = "reference" if unknown == 1 else "references"
            holders.insert(limit - 1, Holder("native", (Link(f"{unknown} further {noun} from native code", "native"),)))
        elif not holders and not handles:
            holders.append(Holder("native", (Link("native code", "native"),)))
        return holders[:limit]

    # What follows is in methods of its own so that no loop variable holds a tensor while references are counted.

    def _lead(self, buffer: int) -> None:
        for leader, links in self._natives.savers():
            self._heap.link(buffer, leader, links)

    def _lend(self, buffer: int, lenders: Iterable[tuple[object, str]], asked: Iterable[int]) -> None:
        for lender, kind in lenders:
            if id(lender) not in asked:
                self._kinds[self._heap.link(buffer, lender)] = kind

    def _needs_census(self, targets: list[int]) -> bool:
        """Whether something that the collector does not list may hold the bytes, as an array does."""
        return (
            not targets
            or not self._natives.counts
            or any(self._heap.unseen(key) > 0 for key in targets)
            or any(not gc.is_tracked(self._heap.objects[key]) for key in targets)
            or "memoryview" in self._kinds.values()
        )

    def _take_census(self, buffer: int, asked: Iterable[int]) -> int:
        self._census = Census(self._roots.keep)
        self._heap.take(self._census)
        spans = self._natives.spans()
        arrays = [array for array in self._census.keep if any(reads(array, span) for span in spans)]
        strangers = self._natives.strangers() if self._natives.counts else []
        kinds = ["capsule" if type(array) is host.CAPSULE else "array" for array in arrays]
        self._lend(buffer, [*zip(arrays, kinds, strict=True), *strangers], asked)
        exports = len(arrays) + len(strangers)
        arrays.clear()
        strangers.clear()
        return exports

    def _unknown(self, targets: list[int], exports: int) -> int:
        things = [self._heap.objects[key] for key in targets]
        left = self._natives.unknown(things, exports)
        things.clear()
        return left

    def _variables(self, asked: Iterable[int], others: Iterable[int]) -> Iterable[tuple[tuple[int, ...], Holder]]:
        for keys, kind in ((asked, ""), (others, "view")):
            for key in keys:
                for root in self._roots.variables(self._heap.objects[key]):
                    yield (root.rank, 0, 0, 0), Holder(kind or root.kind, root.links)

    def _paths(self, targets: list[int], others: Iterable[int], most: int) -> Iterable[tuple[tuple[int, ...], Holder]]:
        told = [path for path in paths.shortest(self._heap, targets) if self._is_worth_telling(path)]
        told.sort(key=lambda path: (path.rank, self._graphs(path), len(path.chain)))
        seen: set[Holder] = set()
        for path in told:
            if len(seen) >= most:
                break
            holder = self._tell(path, path.chain[:-1] if path.chain[-2] in self._kinds else path.chain)
            kind = self._kinds.get(path.chain[-2], "view" if path.chain[-1] in others else holder.kind)
            foreign = sum(link.site is not None and not sites.is_user(link.site.file) for link in holder.links)
            lender = path.chain[-2] if path.chain[-2] in self._kinds else path.chain[-1]
            needs = _needs(self._heap.objects[lender]) if kind in ("array", "view") else None
            seen.add(Holder(kind, holder.links))
            yield (path.rank, self._graphs(path), foreign, len(path.chain)), Holder(kind, holder.links, needs)

    def _is_worth_telling(self, path: paths.Path) -> bool:
        parent, target = path.chain[-2:]
        if any(key in self._kinds for key in path.chain[:-2]):
            return False  # by way of another reader of the bytes, which is told
        if path.status != "rooted" and self._kinds.get(parent) in ("memoryview", "storage"):
            return False  # made by the framework itself, as part of something that is told anyway
        if path.status == "loose" and self._roots.has_cell(self._heap.objects[target], self._heap.objects[parent]):
            return False  # the cell of a variable that is told anyway
        # By a way through several graphs: the first tensor on it leads to the last node itself, which is told.
        last = any(link.kind == "autograd" for link in self._heap.parents[target][parent])
        return path.status == "cycle" or not last or self._graphs(path) == 1

    def _graphs(self, path: paths.Path) -> int:
        """How many times the path goes through an autograd graph."""
        steps = [self._heap.parents[child][parent] for parent, child in pairwise(path.chain)]
        return sum(link.kind == "autograd" for links in steps for link in links)

    def _tell(self, path: paths.Path, keys: tuple[int, ...]) -> Holder:
        chain = [self._heap.objects[key] for key in keys]
        if path.status == "rooted":
            root, used = self._roots.begin(chain)
            return Holder(root.kind, (*root.links, *self._links(keys[used:])))
        is_tape = len(keys) > 1 and any(link.kind == "tape" for link in self._heap.parents[keys[1]][keys[0]])
        start = () if is_tape else self._namer.start(chain[0], loose=path.status == "loose")
        loop = (*self._links(path.loop), *start) if path.loop else ()
        links = [*start, *loop, *self._links(keys)]
        kind = "cycle" if path.status == "cycle" else links[0].kind
        links[0] = dataclasses.replace(links[0], text=links[0].text.removeprefix(f"{kind} "))
        if path.status == "cycle":
            links[0] = dataclasses.replace(links[0], kind="native cycle" if self._is_native(path) else "cycle")
        return Holder(kind, tuple(links))

    def _is_native(self, path: paths.Path) -> bool:
        """Whether the cycle goes through a reference that the garbage collector does not see."""
        return any(self._heap.parents[child][parent] for parent, child in pairwise(path.loop or path.chain))

    def _links(self, keys: tuple[int, ...]) -> list[Link]:
        told = {at: self._heap.parents[child][parent] for at, (parent, child) in enumerate(pairwise(keys))}
        return self._namer.links([self._heap.objects[key] for key in keys], told)

    def _known(self, thing: object) -> str | None:
        """A name for an object that is used as a key: a variable's, or that of an attribute or parameter."""
        name = self._roots.name(thing)
        if name is not None:
            return name
        spaces = [space for space in referrers([thing]) if plain.is_dict(space)]
        keys = [key for space in spaces for found, key in (plain.key_of(space, thing),) if found and type(key) is str]
        spaces.clear()
        return keys[0] if keys else None


def _needs(thing: Any) -> int | None:
    """The bytes of an array or a tensor itself."""
    count: object = getattr(thing, "nbytes", None)
    return count if type(count) is int else None


def _distinct(found: Iterable[Holder]) -> list[Holder]:
    """Each holder once, and one cycle through a graph instead of one for each tensor in it."""
    kept: dict[Holder, None] = {}
    graphs = 0
    for holder in found:
        is_graph = holder.kind == "cycle" and any(link.kind == "autograd" for link in holder.links)
        graphs += is_graph
        if not is_graph or graphs == 1:
            kept[holder] = None
    return list(kept)
