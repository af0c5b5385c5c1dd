"""One path for every direct reference: the shortest from a beginning, or what is left to say where there is none."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType

from tenure.analysis.holders import plain
from tenure.analysis.holders.heap import Heap

_PLAIN = (dict, list, tuple, set, frozenset, deque, CellType, MethodType, FunctionType)
_DEPTH = 40
_BREADTH = 1500  # objects asked about on one level
_DIRECT = 300  # references to the targets that are followed at all
_ODD = 100  # a way through a graph or a key is told only where no plain one was found


@dataclass(frozen=True)
class Path:
    """Object ids from the beginning to the target.

    `status` is "rooted", "loose" (its first object is held by nothing that can be seen), "cycle" (`loop` leads from
    the first object back to it) or "far" (the search ended before it found a beginning). `rank` is 0 where it begins
    in the user's code, 1 in a library's, 2 where no name was found.
    """

    status: str
    chain: tuple[int, ...]
    loop: tuple[int, ...] = ()
    rank: int = 0


def explore(heap: Heap, targets: list[int]) -> None:
    """Go upwards from the targets until every direct reference to one has a beginning in the user's code."""
    heap.start()
    goals = set(targets)
    heap.expand([target for target in targets if target not in heap.expanded])
    direct = {parent for _, parent in _direct(heap, targets)}
    for _ in range(_DEPTH):
        missing = direct.difference(_reached(heap, goals, 0, odd=False))
        ends = [key for key in _above(heap, missing, goals) if key not in heap.expanded and not heap.is_end(key)]
        if not ends or heap.late:
            break
        heap.expand(ends[:_BREADTH])


def shortest(heap: Heap, targets: list[int]) -> list[Path]:
    """The path of every direct reference to a target."""
    goals = set(targets)
    reached = [_reached(heap, goals, rank) for rank in (0, 1, 2)]
    found: list[Path] = []
    for target, parent in _direct(heap, targets):
        rank = next((rank for rank in (0, 1, 2) if parent in reached[rank]), None)
        if rank is None:
            found.append(_unrooted(heap, goals, parent, target))
        elif rank < 2:  # tenure's own references are not told
            found.append(Path("rooted", (*_trail(reached[rank], parent)[::-1], target), rank=rank))
    return found


def _direct(heap: Heap, targets: list[int]) -> Iterable[tuple[int, int]]:
    goals = set(targets)
    found = [(target, parent) for target in targets for parent in heap.parents.get(target, ()) if parent not in goals]
    found.sort(key=lambda pair: heap.ranks[pair[1]] is None)  # names first
    return found[:_DIRECT]


def _unrooted(heap: Heap, goals: set[int], parent: int, target: int) -> Path:
    above = _above(heap, {parent}, goals)
    if any(key not in heap.expanded for key in above):
        start = next((key for key in above if not plain.is_a(heap.objects[key], _PLAIN)), parent)
        return Path("far", (*_downwards(heap, start, parent, goals), target), rank=2)
    loose = _loose(heap, above)
    if loose is not None:
        return Path("loose", (*_downwards(heap, loose, parent, goals), target), rank=2)
    # All that leads here is held only by itself: tell the shortest loop and the way from it to the target. Best from
    # an object of the user's, which has names for what it holds, else from the target, else from any container.
    objects = [key for key in above if not plain.is_a(heap.objects[key], _PLAIN)]
    functions = [key for key in above if plain.is_a(heap.objects[key], FunctionType)]
    for key in (*objects, *functions, target, *above):
        loop = _loop(heap, key)
        if loop:
            return (
                Path("cycle", loop)
                if key == target
                else Path("cycle", (*_downwards(heap, key, parent, goals), target), loop)
            )
    return Path("far", (parent, target), rank=2)


def _reached(heap: Heap, goals: set[int], rank: int, *, odd: bool = True) -> dict[int, int]:
    """Everything reached from beginnings of this rank without passing a target, and from where (0: a beginning)."""
    children: dict[int, list[tuple[int, int]]] = {}
    for child, parents in heap.parents.items():
        for parent in parents:
            is_plain = heap.is_plain(child, parent)
            if is_plain or odd:
                children.setdefault(parent, []).append((child, 1 if is_plain else _ODD))
    queue = [
        (0, order, key, 0) for order, key in enumerate(heap.objects) if heap.ranks[key] == rank and key not in goals
    ]
    order = len(heap.objects)
    found: dict[int, int] = {}
    while queue:
        cost, _, key, before = heapq.heappop(queue)
        if key in found:
            continue
        found[key] = before
        for child, more in children.get(key, ()):
            if child not in found and child not in goals:
                order += 1
                heapq.heappush(queue, (cost + more, order, child, key))
    return found


def _trail(found: dict[int, int], key: int) -> list[int]:
    trail = [key]
    while found[trail[-1]]:
        trail.append(found[trail[-1]])
    return trail


def _above(heap: Heap, starts: set[int], goals: set[int]) -> list[int]:
    """The starts and all that is known to lead to them, nearest first."""
    return list(_upwards(heap, starts, goals))


def _upwards(heap: Heap, starts: set[int], goals: set[int]) -> dict[int, int]:
    queue = deque(starts)
    found = dict.fromkeys(starts, 0)
    while queue:
        key = queue.popleft()
        for parent in heap.parents.get(key, ()):
            if parent not in found and parent not in goals:
                found[parent] = key
                queue.append(parent)
    return found


def _downwards(heap: Heap, start: int, goal: int, goals: set[int]) -> list[int]:
    """The shortest trail from `start` down to `goal`."""
    return _trail(_upwards(heap, {goal}, goals), start)


def _loose(heap: Heap, above: list[int]) -> int | None:
    """The nearest object that somebody unseen holds: native code, or an expression that is being evaluated."""
    for key in above:
        parents = heap.parents.get(key, {})
        # Of what is known to be held natively, the count of native references is not known.
        if not parents or (heap.unseen(key) > 0 and not any(parents.values())):
            return key
    return None


def _loop(heap: Heap, key: int) -> tuple[int, ...]:
    """The shortest way from an object back to itself."""
    trails = [
        _trail(_upwards(heap, {parent}, set()), key)
        for parent in heap.parents.get(key, ())
        if _leads(heap, key, parent)
    ]
    return (*min(trails, key=len), key) if trails else ()


def _leads(heap: Heap, start: int, goal: int) -> bool:
    return start in _upwards(heap, {goal}, set())
