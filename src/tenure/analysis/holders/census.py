"""One look over the whole heap for what the collector does not list: NumPy arrays and DLPack capsules.

It does not list tuples and dicts either in which there are only such things. All are found as what listed objects
refer to.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from typing import Any

from tenure import heap
from tenure.analysis.holders import plain
from tenure.frameworks.host import CAPSULE

_CHUNK = 20_000


class Census:
    """Arrays, capsules, and the unlisted containers of these. Everything is kept until `clear`."""

    def __init__(self, more: Iterable[object]) -> None:
        numpy: Any = sys.modules.get("numpy")
        self._array: Any = getattr(numpy, "ndarray", None)
        self._containers: list[Any] = []
        self.keep: list[Any] = []
        self._alive: list[Any] = []  # so that no id is seen twice for two things
        self._seen: dict[int, bool] = {}
        arrays = set(map(id, heap.family(self._array))) if self._array is not None else set[int]()
        self._kinds = {id(dict), id(tuple), id(CAPSULE), *arrays}
        objects = heap.objects()
        for start in range(0, len(objects), _CHUNK):
            chunk = objects[start : start + _CHUNK]
            self._look(plain.of(self._kinds, heap.referents(chunk)))
            self._look(plain.of(arrays, chunk))  # subclasses of arrays are listed themselves
        self._look(plain.of(self._kinds, more))

    def clear(self) -> None:
        """Let go of everything."""
        self.keep.clear()
        self._containers.clear()
        self._alive.clear()

    @property
    def own(self) -> tuple[int, ...]:
        """The ids of the lists in which things are kept."""
        return id(self.keep), id(self._containers), id(self._alive)

    def holding(self, ids: set[int]) -> list[Any]:
        """The unlisted containers, and arrays of objects, that directly hold one of these."""
        return [thing for thing in self._containers if not ids.isdisjoint(map(id, contents(thing)))]

    def _look(self, things: Iterable[Any]) -> bool:
        """Note the arrays and capsules among these and in these; return whether there were any."""
        found = False
        for thing in things:
            if id(thing) in self._seen:
                found = found or self._seen[id(thing)]
                continue
            if plain.is_dict(thing) or plain.is_tuple(thing):
                if gc.is_tracked(thing):
                    continue
                self._seen[id(thing)] = False
                self._alive.append(thing)
                if not self._look(plain.of(self._kinds, gc.get_referents(thing))):
                    continue
                self._containers.append(thing)
            else:
                self.keep.append(thing)
                if type(thing) is not CAPSULE and self._array.dtype.__get__(thing).kind == "O":
                    self._containers.append(thing)
            self._seen[id(thing)] = found = True
        return found


def contents(thing: Any) -> list[Any]:
    """What an object refers to: what the collector sees, or the elements of an array of objects."""
    array: Any = getattr(sys.modules.get("numpy"), "ndarray", ())
    if not issubclass(type(thing), array):
        return gc.get_referents(thing)
    flat: list[Any] = array.ravel(array.view(thing, array)).tolist() if array.dtype.__get__(thing).kind == "O" else []
    return gc.get_referents(thing) + flat


def place(thing: Any, value: object) -> tuple[int, ...] | None:
    """The position of `value` itself in an array of objects; None if this is none, or has it not."""
    array: Any = getattr(sys.modules.get("numpy"), "ndarray", ())
    if not issubclass(type(thing), array) or array.dtype.__get__(thing).kind != "O":
        return None
    index = next((index for index, found in enumerate(contents(thing)) if found is value), None)
    if index is None:
        return None
    found: list[int] = []
    for size in reversed(array.shape.__get__(thing)):
        index, rest = divmod(index, size)
        found.insert(0, rest)
    return tuple(found)
