"""Where the references to an object come from: running frames, the heap, or something that neither shows.

A handle whose references are all explained may lose its bytes. One that something unseen refers to may not: an array
that reads its memory, an operation that another thread is in.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from types import AsyncGeneratorType, CoroutineType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

from tenure import frames, heap, native

_FEW = 8  # for so many, asking the collector is faster than a table; it compares each reference with each object
# Prefixes of extension classes of the standard library and torch; other extensions' objects explain nothing. The
# native extension is given these.
_KNOWN = (
    "collections.",
    "functools.",
    "itertools.",
    "types.",
    "torch.",
    "asyncio.",
    "weakref.",
    "contextvars.",
    "operator.",
    "_",
)
_HEAD_OF_A_CLASS = 3 * ctypes.sizeof(ctypes.c_void_p)  # what is before `tp_name` in PyTypeObject
_DEEP = 16  # references between a tensor and what native code holds, at most
_MANY = 4000  # objects on the way, at most
# What is the user's own variable, wherever it is kept: the way up ends here.
_ROOTS = (ModuleType, type, FrameType, GeneratorType, CoroutineType, AsyncGeneratorType)


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
    functions = {thing.__code__: id(thing) for thing in objects if type(thing) is FunctionType}
    for frame in frames.running() if functions else ():  # which refer to their functions, and do not show it
        if frame.f_code in functions:
            counts[functions[frame.f_code]] += 1
    return [counts[id(thing)] for thing in objects]


def _in_frames() -> Iterator[Any]:
    for frame in frames.running():
        yield from frames.references(frame)


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
        return core.heap_references(objects, heap.objects(), _KNOWN)  # type: ignore[no-any-return]
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


def lead_to(
    objects: list[Any], is_end: Callable[[Any], bool], holds: Callable[[list[Any]], set[int]]
) -> tuple[set[int], bool]:
    """The ids of those that something of native code's leads to: containers, closures and objects on the way are followed.

    Something for which `is_end` is true; or something with a reference that neither heap nor frames explain, if `holds`
    says of it (by its id) that native code holds it. `is_end` is asked of all that is on the way. Also returned: whether
    the search came to its end.
    """
    snapshot = heap.objects()
    variables = _variables()
    below: dict[int, set[int]] = {id(thing): set() for thing in objects}
    found: set[int] = set()
    unclear: list[Any] = []
    levels = [objects]
    while levels[-1] and len(levels) < _DEEP and len(below) < _MANY:
        level = levels[-1]
        around, explained = _around(level, snapshot)
        # What is not in the snapshot refers to these too: this list (if it is ours), the snapshot, getrefcount's argument.
        numbers = [number - 2 - (level is not objects) for number in map(sys.getrefcount, level)]
        for index, frames_too in enumerate(from_frames(level)):
            if numbers[index] > explained[index] + frames_too:
                unclear.append(level[index])
        above: list[Any] = []
        levels.append(above)
        mine = {id(levels), id(around), id(snapshot), id(unclear), *map(id, levels)}
        known = set(map(id, level))
        while around:
            referrer = around.pop()
            key = id(referrer)
            if key in mine or key in variables or issubclass(type(referrer), _ROOTS):
                continue
            if key not in below:
                below[key] = set()
                above.append(referrer)
            below[key].update(known & set(map(id, gc.get_referents(referrer))))
            if is_end(referrer):
                found.add(key)
        referrer = None
    found |= holds(unclear) if unclear else set()
    waiting = list(found)
    while waiting:
        fresh = below[waiting.pop()] - found
        found |= fresh
        waiting.extend(fresh)
    return found & set(map(id, objects)), not levels[-1]


def _around(objects: list[Any], snapshot: list[Any]) -> tuple[list[Any], list[int]]:
    """What of the snapshot refers to these, and how many references to each that is."""
    core = native.load("tenure_references", "references.c")
    if core is not None:
        return core.referrers(objects, snapshot)  # type: ignore[no-any-return]
    wanted = dict.fromkeys(map(id, objects), 0)
    found = []
    for thing in snapshot:
        hits = [id(value) for value in gc.get_referents(thing) if id(value) in wanted] if _may_ask(thing) else []
        for number in hits:
            wanted[number] += 1
        if hits:
            found.append(thing)
    return found, list(wanted.values())


def _may_ask(thing: Any) -> bool:
    return type(thing) is not ModuleType  # see `heap.referents`


def _variables() -> set[int]:
    """The ids of the dicts of modules, and of running code."""
    found = {id(vars(module)) for module in list(sys.modules.values()) if isinstance(module, ModuleType)}
    for frame in frames.running():
        found.add(id(frame.f_globals))
    return found


def counts(objects: list[Any]) -> list[int]:
    """For each object, the references to it beside this list's own."""
    return [count - 2 for count in map(sys.getrefcount, objects)]  # the argument of getrefcount is one


def _is_opaque(kind: type) -> bool:
    name = _name_in_c(kind)
    return "." in name and not name.startswith(_KNOWN)


def _name_in_c(kind: type) -> str:
    # `tp_name`: an extension's class has its folder in it, a class written in Python has not, whatever its module says.
    name = ctypes.c_char_p.from_address(id(kind) + _HEAD_OF_A_CLASS).value
    return name.decode("utf-8", "replace") if name else ""
