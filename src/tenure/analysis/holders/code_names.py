"""How functions, generators, frames, exceptions, caches and their like hold things, in the words of their code."""

from __future__ import annotations

import contextvars
import functools
import gc
import threading
from collections.abc import Callable
from types import (
    AsyncGeneratorType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    TracebackType,
)
from typing import Any

from tenure.analysis.holders import frames, plain
from tenure.model import Link, Site

Step = tuple[tuple[Link, ...], int]

_CACHE: Any = functools._lru_cache_wrapper
_SUSPENDED: dict[type, tuple[str, str]] = {
    GeneratorType: ("generator", "gi"),
    CoroutineType: ("coroutine", "cr"),
    AsyncGeneratorType: ("async generator", "ag"),
}


def step(chain: list[object], at: int) -> Step | None:
    """How `chain[at]` holds the next object, if it is one of these."""
    owner = chain[at]
    kind = type(owner)
    teller = next((tell for known, tell in _TELLERS.items() if known is kind), None)
    if teller is not None:
        return teller(owner, chain, at)
    if plain.is_a(owner, BaseException):
        return _exception(owner, chain, at)
    if plain.class_name(kind).startswith("hamt"):
        return _context(owner, chain, at)
    if is_iterator(owner):
        return (Link(f"iterator over {plain.class_name(type(chain[at + 1]))}", "iterator"),), 1
    if plain.is_a(owner, threading.local):
        return _thread_local(owner, chain, at)
    if plain.is_a(owner, functools.partial):
        return _partial(owner, chain, at)
    return None


def tells_itself(thing: object) -> bool:
    """Whether the step from this object says what the object is."""
    context = plain.class_name(type(thing)).startswith("hamt")
    return plain.exactly(thing, _TELLERS) or context or plain.is_a(thing, BaseException) or is_iterator(thing)


def is_iterator(thing: object) -> bool:
    """Whether this is what a loop over a list, tuple, dict or set goes along."""
    kind = type(thing)
    return plain.module_name(kind) == "builtins" and plain.class_name(kind).endswith("iterator")


def _function(owner: Any, chain: list[object], at: int) -> Step | None:
    code: CodeType = owner.__code__
    shown = f"<function {owner.__qualname__}>"
    site = Site(code.co_filename, code.co_firstlineno, code.co_qualname)
    value, after = chain[at + 1], chain[at + 2] if at + 2 < len(chain) else None
    closure, defaults = owner.__closure__, owner.__defaults__
    if value is closure and after is not None:
        index = plain.index_of(closure, after)
        name = code.co_freevars[index] if index is not None else "?"
        return (Link(f"closure cell {name} of {shown}", "closure", site),), 3
    if value is defaults and after is not None:
        index = plain.index_of(owner.__defaults__, after) or 0
        name = code.co_varnames[: code.co_argcount][index - len(owner.__defaults__)]
        return (Link(f"default {name} of {shown}", "default", site),), 2
    if value is owner.__kwdefaults__ and after is not None:
        return (Link(f"default {plain.key_of(owner.__kwdefaults__, after)[1]} of {shown}", "default", site),), 2
    return None


def _method(owner: Any, chain: list[object], at: int) -> Step:
    if chain[at + 1] is owner.__self__:
        name = getattr(owner.__func__, "__qualname__", "?") if type(owner.__func__) is FunctionType else "?"
        return (Link(f"bound method {name}", "method"), Link("self", "local")), 1
    return (), 1


def _cell(owner: object, chain: list[object], at: int) -> Step:
    return (Link("closure cell", "closure"),), 1


def _partial(owner: Any, chain: list[object], at: int) -> Step | None:
    get = functools.partial.__dict__
    function, args, keywords = (get[name].__get__(owner) for name in ("func", "args", "keywords"))
    shown = f"partial of {_callable(function)}"
    value = chain[at + 1]
    after = chain[at + 2] if at + 2 < len(chain) else None
    if value is args and after is not None:
        return (Link(f"{shown} argument {plain.index_of(args, after)}", "partial"),), 2
    if value is keywords and after is not None:
        return (Link(f"{shown} argument {plain.key_of(keywords, after)[1]}", "partial"),), 2
    return ((Link(shown, "partial"),), 1) if value is function else None


def _callable(function: object) -> str:
    name = getattr(function, "__qualname__", None) if plain.exactly(function, (FunctionType, type, _CACHE)) else None
    return f"{name}()" if type(name) is str else plain.class_name(type(function))


def _lru_cache(owner: Any, chain: list[object], at: int) -> Step | None:
    """The wrapper holds arguments and results: by way of its dict if the cache is unbounded, else directly."""
    space = plain.attributes(owner) or {}
    if chain[at + 1] is space:
        return None
    wrapped = space.get("__wrapped__")
    code = wrapped.__code__ if type(wrapped) is FunctionType else None
    site = None if code is None else Site(code.co_filename, code.co_firstlineno, code.co_qualname)
    unbounded = _CACHE.cache_info(owner).maxsize is None
    steps = 2 if unbounded and at + 2 < len(chain) else 1
    entries = [part for part in gc.get_referents(owner) if plain.is_dict(part) and part is not space]
    is_argument = any(plain.has_key(part, chain[at + steps]) for part in entries)
    shown = f"lru_cache of {_callable(wrapped)}"
    return (Link(f"{shown} argument" if is_argument else shown, "cache", site),), steps


def _suspended(owner: Any, chain: list[object], at: int) -> Step:
    noun, prefix = _SUSPENDED[type(owner)]
    frame: FrameType | None = getattr(owner, f"{prefix}_frame")
    shown = f"{noun} {owner.__qualname__}()"
    if frame is None:
        return (Link(shown, "generator"),), 1
    name, steps = _local(frame, chain, at)
    if name is not None:
        site = frames.binding(frame.f_code, name, frame.f_lineno)
        return (Link(f"{shown} local {name}", "generator", site),), steps
    site = Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
    waiting = getattr(owner, {"gi": "gi_yieldfrom", "cr": "cr_await", "ag": "ag_await"}[prefix])
    return (Link(f"{shown} awaiting" if waiting is chain[at + 1] else shown, "generator", site),), 1


def _local(frame: FrameType, chain: list[object], at: int) -> tuple[str | None, int]:
    """Which variable of the frame leads to the next object, or to what is in the next object if that is a cell."""
    found = frames.variables(frame)
    for steps in (1, 2):
        value = chain[at + steps] if at + steps < len(chain) else None
        for name, held in found:
            if held is value and value is not None:
                return name, steps
        if type(chain[at + 1]) is not CellType:
            break
    return None, 1


def _frame(owner: Any, chain: list[object], at: int, noun: str = "frame") -> Step:
    name, steps = _local(owner, chain, at)
    shown = f"{noun} {owner.f_code.co_qualname}()"
    if name is None:
        return ((), 1) if type(chain[at + 1]) is FrameType else ((Link(shown, "frame"),), 1)
    site = frames.binding(owner.f_code, name, owner.f_lineno)
    return (Link(f"{shown} local {name}", "frame", site),), steps


def _traceback(owner: Any, chain: list[object], at: int) -> Step:
    steps = 1
    while at + steps < len(chain) - 1 and type(chain[at + steps]) is TracebackType:
        steps += 1
    while at + steps < len(chain) - 1 and type(chain[at + steps]) is FrameType:
        links, more = _frame(chain[at + steps], chain, at + steps, "traceback frame")
        steps += more
        if links:
            return links, steps
    return (Link("traceback", "exception"),), steps


def _exception(owner: Any, chain: list[object], at: int) -> Step:
    shown = Link(f"exception {plain.class_name(type(owner))}", "exception")
    value = chain[at + 1]
    if type(value) is TracebackType:
        links, steps = _traceback(value, chain, at + 1) if at + 2 < len(chain) else ((), 0)
        return (shown, *links), steps + 1
    get = BaseException.__dict__
    for name in ("__context__", "__cause__"):
        if get[name].__get__(owner) is value:
            return (shown, Link(f".{name}", "attribute")), 1
    if get["args"].__get__(owner) is value and at + 2 < len(chain):
        return (shown, Link(f".args[{plain.index_of(value, chain[at + 2])}]", "attribute")), 2
    space = plain.attributes(owner)
    if space is value and at + 2 < len(chain):
        return (shown, Link(f".{plain.key_of(space, chain[at + 2])[1]}", "attribute")), 2
    return (shown,), 1


def _thread_local(owner: object, chain: list[object], at: int) -> Step | None:
    """Each thread's values are in a dict of their own, in a dict by thread."""
    after = chain[at + 2] if at + 2 < len(chain) else None
    if type(chain[at + 1]) is dict and type(after) is dict and at + 3 < len(chain):
        found, key = plain.key_of(after, chain[at + 3])
        if found:
            return (Link(f".{key}", "attribute"),), 3
    return None


def _context(owner: Any, chain: list[object], at: int) -> Step:
    """A context holds its variables in a tree of pairs; the context itself says which is whose."""
    steps = 1
    while at + steps < len(chain) - 1 and plain.class_name(type(chain[at + steps])).startswith("hamt"):
        steps += 1
    names = [variable.name for variable, value in owner.items() if value is chain[at + steps]]
    return (Link(f"context variable {names[0] if names else '?'}", "context"),), steps


_TELLERS: dict[type, Callable[[Any, list[object], int], Step | None]] = {
    FunctionType: _function,
    MethodType: _method,
    CellType: _cell,
    functools.partial: _partial,
    _CACHE: _lru_cache,
    FrameType: _frame,
    TracebackType: _traceback,
    contextvars.Context: _context,
    **dict.fromkeys(_SUSPENDED, _suspended),
}
