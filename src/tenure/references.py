"""Where the references to an object come from: running frames, the heap, or something that neither shows.

A handle whose references are all explained may lose its bytes. One that something unseen refers to may not: an array
that reads its memory, an operation that another thread is in.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from tenure import frames, heap, native

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


def from_frames(objects: list[Any], *, named: bool = False) -> list[int]:
    """For each object, the references that running frames of all threads have to it.

    Where `named`, also those from globals of the modules whose code this thread is in: a script's variables. They are part
    of the heap; to ask for them alone is quick.
    """
    core = native.load("tenure_references", "references.c")
    if core is not None:
        return core.frame_references(objects, named)  # type: ignore[no-any-return]
    counts = {id(thing): 0 for thing in objects}
    for value in itertools.chain(_in_frames(), _in_globals() if named else ()):
        if id(value) in counts:
            counts[id(value)] += 1
    return [counts[id(thing)] for thing in objects]


def _in_frames() -> Iterator[Any]:
    for frame in frames.running():
        yield from frames.values(frame)


def _in_globals() -> Iterator[Any]:
    found = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found[id(frame.f_globals)] = frame.f_globals
        frame = frame.f_back
    for values in found.values():
        yield from list(values.values())


def from_heap(objects: list[Any]) -> list[int]:
    """For each object, the references that objects known to the garbage collector have to it, `objects` excepted."""
    core = native.load("tenure_references", "references.c") if len(objects) > _FEW else None
    if core is not None:
        return core.heap_references(objects, heap.objects())  # type: ignore[no-any-return]
    counts = {id(thing): 0 for thing in objects}
    for referrer in heap.referrers(objects):
        if referrer is objects or _is_opaque(type(referrer)):
            continue
        for value in gc.get_referents(referrer):
            if id(value) in counts:
                counts[id(value)] += 1
    return [counts[id(thing)] for thing in objects]


def unexplained(objects: list[Any], explained: Sequence[int]) -> set[int]:
    """The ids of those with more references than `explained`, this list's own, and what frames and the heap show."""
    more = [count - known for count, known in zip(counts(objects), explained, strict=True)]
    named = from_frames(objects, named=True)
    if not any(count > names for count, names in zip(more, named, strict=True)):
        return set()
    framed, heap = from_frames(objects), from_heap(objects)
    return {id(objects[at]) for at, count in enumerate(more) if count > framed[at] + heap[at]}


def counts(objects: list[Any]) -> list[int]:
    """For each object, the references to it beside this list's own."""
    return [count - 2 for count in map(sys.getrefcount, objects)]  # the argument of getrefcount is one


def _is_opaque(kind: type) -> bool:
    written_in_python = bool(kind.__flags__ & 1 << 9) and not kind.__flags__ & 1 << 8
    return not written_in_python and not kind.__module__.startswith(_KNOWN)
