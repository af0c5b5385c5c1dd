"""Where the references to an object come from: running frames, the heap, or something that neither shows.

A handle whose references are all explained may lose its bytes. One that something unseen refers to may not: an array
that reads its memory, an operation that another thread is in.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from tenure import frames, native

# Prefixes of classes of the interpreter, the standard library and torch; other extensions' objects explain nothing.
_KNOWN = (
    "builtins",
    "collections",
    "functools",
    "itertools",
    "types",
    "torch",
    "asyncio",
    "weakref",
    "contextvars",
    "_",
)


def from_frames(objects: list[Any]) -> list[int]:
    """For each object, the references that running frames of all threads have to it."""
    core = native.load("tenure_references", "references.c")
    if core is not None:
        return core.frame_references(objects, True)  # type: ignore[no-any-return]
    counts = {id(thing): 0 for thing in objects}
    for frame in frames.running():
        for value in frames.values(frame):
            if id(value) in counts:
                counts[id(value)] += 1
    return [counts[id(thing)] for thing in objects]


def from_heap(objects: list[Any]) -> list[int]:
    """For each object, the references that objects known to the garbage collector have to it, `objects` excepted."""
    core = native.load("tenure_references", "references.c")
    if core is not None:
        return core.heap_references(objects, gc.get_objects())  # type: ignore[no-any-return]
    counts = {id(thing): 0 for thing in objects}
    for referrer in gc.get_referrers(*objects):
        if referrer is objects or _is_opaque(type(referrer)):
            continue
        for value in gc.get_referents(referrer):
            if id(value) in counts:
                counts[id(value)] += 1
    return [counts[id(thing)] for thing in objects]


def unexplained(objects: list[Any], explained: list[int]) -> set[int]:
    """The ids of those with more references than `explained`, this list's own, and what frames and the heap show."""
    rest = _rest(objects, explained, from_frames(objects))
    open_questions = [thing for thing, more in zip(objects, rest, strict=True) if more > 0]
    if not open_questions:
        return set()
    positions = [index for index, more in enumerate(rest) if more > 0]
    del open_questions
    heap = from_heap(objects)
    return {id(objects[index]) for index in positions if rest[index] > heap[index]}


def _rest(objects: list[Any], explained: list[int], framed: list[int]) -> list[int]:
    # Besides the list: the argument of getrefcount.
    return [sys.getrefcount(objects[i]) - 2 - framed[i] - explained[i] for i in range(len(objects))]


def _is_opaque(kind: type) -> bool:
    written_in_python = bool(kind.__flags__ & 1 << 9) and not kind.__flags__ & 1 << 8
    return not written_in_python and not kind.__module__.startswith(_KNOWN)
