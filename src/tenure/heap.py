"""Finding objects by class, or by what they refer to, among all that the garbage collector knows."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from types import ModuleType
from typing import Any

from tenure import native

CACHE: type = functools._lru_cache_wrapper  # a function whose results functools keeps for later calls


def objects() -> list[Any]:
    """All that the collector knows."""
    return _whole(gc.get_objects, ())


def _whole(ask: Callable[..., list[Any]], arguments: tuple[Any, ...]) -> list[Any]:
    # A tuple that another thread is filling must not be listed: that thread would fail with a SystemError.
    core = native.load("tenure_references", "references.c")
    return ask(*arguments) if core is None else core.whole(ask, arguments)


def instances(kinds: Iterable[type]) -> Iterator[Any]:
    """Every object of just these classes. Neither an object's own code runs nor its class's."""
    core = native.load("tenure_references", "references.c")
    found = _by_class(kinds) if core is None else core.instances(gc.get_objects, list(kinds))
    while found:
        yield found.pop()


def _by_class(kinds: Iterable[type]) -> list[Any]:
    # Not `id`, which is audited: it would take as long as all the rest.
    wanted = set(map(object.__hash__, kinds))
    things = objects()
    return list(compress(things, map(wanted.__contains__, map(object.__hash__, map(type, things)))))


def referents(things: Iterable[Any]) -> list[Any]:
    """What these refer to, as the collector sees it. Modules are left out: their dicts are objects of their own.

    On Python 3.12 asyncio's module shows freed objects of its own: to list them revives them, and ruins the list they
    are kept in, which then has no end.
    """
    return gc.get_referents(*(thing for thing in things if type(thing) is not ModuleType))


def referrers(things: Iterable[Any]) -> list[Any]:
    """What refers to any of these. Python 3.13 has the arguments of `gc.get_referrers` among it: those are left out."""
    asked = tuple(things)
    found = _whole(gc.get_referrers, asked)
    return [thing for thing in found if thing is not asked]


def family(*kinds: type, without: Iterable[type] = ()) -> list[type]:
    """These classes and all that inherit from them, but through those that are left out."""
    found: dict[int, type] = {}  # by number: a metaclass may say that its classes have no hash
    passed = set(map(id, without))
    waiting = [*kinds]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in found and id(kind) not in passed:
            found[id(kind)] = kind
            waiting.extend(type.__subclasses__(kind))
    return [*found.values()]
