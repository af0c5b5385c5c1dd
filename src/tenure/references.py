"""Where the references to an object come from: running frames, the heap, or something that neither shows.

A handle whose references are all explained may lose its bytes. One that something unseen refers to may not: an array
that reads its memory, an operation that another thread is in.
"""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

from tenure import frames, native

_FEW = 8  # for so many, asking the collector is faster than a table; it compares each reference with each object
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
    core = native.load("tenure_references", "references.c") if len(objects) > _FEW else None
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


def from_globals(objects: list[Any]) -> list[int]:
    """For each object, the references from globals of the modules whose code this thread is in: a script's variables.

    They are part of the heap; to ask for them alone is quick.
    """
    counts = {id(thing): 0 for thing in objects}
    seen: set[int] = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if id(frame.f_globals) not in seen:
            seen.add(id(frame.f_globals))
            for value in list(frame.f_globals.values()):
                if id(value) in counts:
                    counts[id(value)] += 1
        frame = frame.f_back
    return [counts[id(thing)] for thing in objects]


def beyond_names(objects: list[Any], explained: list[int]) -> list[int]:
    """For each object, its references besides `explained`, this list's own, and names in running code."""
    framed, named = from_frames(objects), from_globals(objects)
    # The argument of getrefcount is one more.
    return [sys.getrefcount(objects[i]) - 2 - explained[i] - framed[i] - named[i] for i in range(len(objects))]


def unexplained(objects: list[Any], explained: list[int]) -> set[int]:
    """The ids of those with more references than `explained`, this list's own, and what frames and the heap show."""
    if not any(more > 0 for more in beyond_names(objects, explained)):
        return set()
    framed, heap = from_frames(objects), from_heap(objects)
    return {
        id(objects[i])
        for i in range(len(objects))
        if sys.getrefcount(objects[i]) - 2 - explained[i] - framed[i] - heap[i] > 0
    }


def _is_opaque(kind: type) -> bool:
    written_in_python = bool(kind.__flags__ & 1 << 9) and not kind.__flags__ & 1 << 8
    return not written_in_python and not kind.__module__.startswith(_KNOWN)
