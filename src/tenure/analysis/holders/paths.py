"""One path for every direct reference: the shortest from a beginning, or what is left to say where there is none."""

from __future__ import annotations

import gc
import sys
from collections import deque
from dataclasses import dataclass

from tenure.analysis.holders.heap import Heap

_DEPTH = 14
_BREADTH = 1500


@dataclass(frozen=True)
class Path:
    """Object ids from the beginning to the target.

    `status` is "rooted", "loose" (its first object is held by nothing that can be seen), "cycle" (`loop` leads from
    the first object back to it) or "far" (the search ended before it found a beginning).
    """

    status: str
    chain: tuple[int, ...]
    loop: tuple[int, ...] = ()
    rank: int = 0


def search(heap: Heap, targets: list[int]) -> list[Path]:
    """Explore upwards from the targets until every direct reference to one has its path."""
    goals = set(targets)
    heap.expand(targets)
    direct = [(parent, target) for target in targets for parent in heap.parents.get(target, ()) if parent not in goals]
    found: dict[int, int] = {}
    for _ in range(_DEPTH):
        found = _reached(heap, goals, 0)
        missing = {parent for parent, _ in direct if parent not in found}
        open_ends = [key for key in _above(heap, missing, goals) if key not in heap.expanded and not heap.is_end(key)]
        if not open_ends or heap.late or len(heap.objects) > _BREADTH * _DEPTH:
            break
        heap.expand(open_ends[:_BREADTH])
    return [path for parent, target in direct if (path := _path(heap, goals, parent, target)) is not None]


def _path(heap: Heap, goals: set[int], parent: int, target: int) -> Path | None:
    for rank in (0, 1, 2):
        found = _reached(heap, goals, rank)
        if parent in found:
            # Tenure's own references are not told.
            return None if rank == 2 else Path("rooted", (*_trail(found, parent), target), rank=rank)
    above = _above(heap, {parent}, goals)
    if any(key not in heap.expanded for key in above):
        return Path("far", (parent, target), rank=1)
    loose = _loose(heap, above)
    if loose is not None:
        return Path("loose", (*_downwards(heap, loose, parent, goals), target), rank=1)
    return _cycle(heap, goals, parent, target)


def _reached(heap: Heap, goals: set[int], rank: int) -> dict[int, int]:
    """Everything reached from beginnings of this rank without passing a target, and from where; nearest first."""
    children: dict[int, list[int]] = {}
    for child, parents in heap.parents.items():
        for parent in parents:
            children.setdefault(parent, []).append(child)
    queue = deque(key for key in heap.objects if heap.ranks[key] == rank and key not in goals)
    found = {key: 0 for key in queue}
    while queue:
        key = queue.popleft()
        for child in children.get(key, ()):
            if child not in found and child not in goals:
                found[child] = key
                queue.append(child)
    return found


def _trail(found: dict[int, int], key: int) -> list[int]:
    trail = [key]
    while found[trail[-1]]:
        trail.append(found[trail[-1]])
    return trail[::-1]


def _above(heap: Heap, starts: set[int], goals: set[int]) -> list[int]:
    """The starts and all that is known to lead to them, nearest first."""
    queue = deque(starts)
    found = dict.fromkeys(starts)
    while queue:
        for parent in heap.parents.get(queue.popleft(), ()):
            if parent not in found and parent not in goals:
                found[parent] = None
                queue.append(parent)
    return list(found)


def _downwards(heap: Heap, start: int, goal: int, goals: set[int]) -> list[int]:
    """The shortest trail from `start` down to `goal`."""
    next_of: dict[int, int] = {goal: 0}
    queue = deque([goal])
    while queue and start not in next_of:
        key = queue.popleft()
        for parent in heap.parents.get(key, ()):
            if parent not in next_of and parent not in goals:
                next_of[parent] = key
                queue.append(parent)
    trail = [start]
    while next_of[trail[-1]]:
        trail.append(next_of[trail[-1]])
    return trail


def _loose(heap: Heap, above: list[int]) -> int | None:
    """The nearest object that somebody unseen holds: native code, or an expression that is being evaluated."""
    inside = set(above)
    counts = dict.fromkeys(above, 0)
    for parent in {parent for key in above for parent in heap.parents.get(key, ())}:
        for part in gc.get_referents(heap.objects[parent]):
            if id(part) in inside:
                counts[id(part)] += 1
    for key in above:
        # One reference is the heap's, one the argument's.
        if sys.getrefcount(heap.objects[key]) - 2 > counts[key]:
            return key
    return next((key for key in above if not heap.parents.get(key)), None)


def _cycle(heap: Heap, goals: set[int], parent: int, target: int) -> Path:
    """All that leads here is held only by itself: tell the shortest loop and the way from it to the target."""
    for key in _above(heap, {parent}, goals):
        loop = _loop(heap, key)
        if loop:
            return Path("cycle", (*_downwards(heap, key, parent, goals), target), loop, rank=0)
    loop = _loop(heap, target)
    return Path("cycle", loop or (parent, target), (), rank=0)


def _loop(heap: Heap, key: int) -> tuple[int, ...]:
    next_of: dict[int, int] = {}
    queue = deque([key])
    while queue:
        child = queue.popleft()
        for parent in heap.parents.get(child, ()):
            if parent not in next_of:
                next_of[parent] = child
                queue.append(parent)
            if parent == key:
                trail = [key, next_of[key]]
                while trail[-1] != key:
                    trail.append(next_of[trail[-1]])
                return tuple(trail)
    return ()
