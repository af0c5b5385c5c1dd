"""A chain of objects as the user would write it: `model.layers[2].weight`, `cache['k']`, `generator batches() local x`."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from typing import Any

from tenure.analysis.holders import census, code_names, plain
from tenure.model import Link

_MODULE_PARTS = ("_modules", "_parameters", "_buffers")
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)

_OPTIMIZER = ("torch.optim.optimizer", "Optimizer")
_OPTIMIZERS = ("param_groups", "state")  # the attributes that lead to its parameters and what it keeps for them
_UNSEEN = "native code or a running call"

# From position `at` in the chain: the links to tell, and how many objects further they lead.
Step = tuple[tuple[Link, ...], int]


class Namer:
    """Names chains; `known` gives a variable's name for an object that is used as a key."""

    def __init__(self, known: Callable[[object], str | None]) -> None:
        self._known = known

    def links(self, chain: list[object], told: dict[int, tuple[Link, ...]]) -> list[Link]:
        """The links of a chain; `told[i]` are links that are known already for the step from object i to the next."""
        found: list[Link] = []
        at = 0
        while at < len(chain) - 1:
            links, steps = (told[at], 1) if told.get(at) else self._step(chain, at)
            for link in links:
                if not (
                    at and link.kind in ("item", "part") and any(one.kind == "tape" for one in told.get(at - 1, ()))
                ):
                    found.append(_after(found[-1], link) if found else link)
            at += max(1, min(steps, len(chain) - 1 - at))
        return found

    def start(self, thing: object, *, loose: bool) -> tuple[Link, ...]:
        """The first links of a path that begins with an object that nothing named holds.

        Of a bare container that is `loose` there is nothing to say but who may hold such a thing.
        """
        if code_names.tells_itself(thing):
            return ()
        shown = Link(plain.class_name(type(thing)), "object")
        return (Link(_UNSEEN, "native"), shown) if loose and plain.exactly(thing, _CONTAINERS) else (shown,)

    def _step(self, chain: list[object], at: int) -> Step:
        owner, value = chain[at], chain[at + 1]
        special = code_names.step(chain, at)
        if special is not None:
            return special
        if plain.is_a(owner, type):
            return self._attribute(chain, at, value) or ((Link(f"<{plain.class_name(type(value))}>", "object"),), 1)
        return (
            (self._attribute(chain, at, value) if not plain.exactly(owner, _CONTAINERS) else None)
            or self._item(owner, value)
            or _slot(owner, value)
            or ((Link(f"<{plain.class_name(type(owner))}>", "object"),), 1)
        )

    def _attribute(self, chain: list[object], at: int, value: object) -> Step | None:
        """`.name`, whether the collector shows the instance's dict in between or not."""
        owner = chain[at]
        # A class's dict is known by its place only: what `__dict__` gives is a proxy.
        space = plain.attributes(owner) if not plain.is_a(owner, type) else value if plain.is_dict(value) else None
        steps = 1
        if space is not None and space is value and at + 2 < len(chain):
            value, steps = chain[at + 2], 2
        found, key = plain.key_of(space, value) if space is not None else (False, None)
        if not found:
            return None
        name = str(key)
        if plain.is_a(value, dict):
            inner = chain[at + steps + 1] if at + steps + 1 < len(chain) else None
            if name in _MODULE_PARTS and inner is not None:
                _, part = plain.key_of(value, inner)
                shown = f"[{part}]" if str(part).isdigit() else f".{part}"
                return (Link(shown, "attribute"),), steps + 1
            if name.endswith("_hooks") and inner is not None:
                return (Link(name.strip("_").removesuffix("s").replace("_", " "), "hook"),), steps + 1
        is_optimizers = name in _OPTIMIZERS and _is_optimizer(owner)
        return (Link(f".{name}", "optimizer" if is_optimizers else "attribute"),), steps

    def _item(self, owner: Any, value: object) -> Step | None:
        if plain.is_a(owner, dict):
            return self._entry(owner, value)
        if plain.is_a(owner, (list, tuple, deque)):
            index = plain.index_of(_items(owner), value)
            if index is None:
                return None
            fields: Any = plain.class_attribute(type(owner), "_fields") if plain.is_a(owner, tuple) else None
            if plain.is_tuple(fields) and index < len(fields):
                return (Link(f".{fields[index]}", "attribute"),), 1
            return (Link(f"[{index}]", _kind_of_item(owner)),), 1
        place = census.place(owner, value)
        if place is not None:
            return (Link(f"[{', '.join(map(str, place))}]", "item"),), 1
        if plain.is_a(owner, (set, frozenset)):
            return (Link("{…}", "item"),), 1
        return None

    def _entry(self, owner: dict[Any, Any], value: object) -> Step | None:
        found, key = plain.key_of(owner, value)
        if found:
            shown = plain.text(key) or self._known(key) or f"<{plain.class_name(type(key))}>"
            return (Link(f"[{shown}]", "entry"),), 1
        return ((Link("[key]", "key"),), 1) if plain.has_key(owner, value) else None


def _is_optimizer(owner: object) -> bool:
    """Return whether this is one of torch's optimizers, by its classes: any object may have an attribute `state`."""
    kinds = type.__dict__["__mro__"].__get__(type(owner))
    return any((plain.module_name(one), plain.class_name(one)) == _OPTIMIZER for one in kinds)


def _kind_of_item(owner: Any) -> str:
    """What cannot grow for ever is told apart: a tuple, and a queue that lets go of the oldest by itself."""
    if plain.is_a(owner, tuple):
        return "part"
    bounded = plain.is_a(owner, deque) and deque.maxlen.__get__(owner) is not None
    return "bounded" if bounded else "item"


def _items(owner: Any) -> list[Any]:
    """The items of a list, tuple or deque, past whatever a subclass overrides."""
    if plain.exactly(owner, (list, tuple)):
        # Not by iterating: `f(*(make() for …))` shows a tuple that is still being filled, and its empty places crash.
        # The collector is shown the last item first, and no empty places, which come after the filled ones.
        return gc.get_referents(owner)[::-1]
    kind: Any = next(kind for kind in (list, tuple, deque) if plain.is_a(owner, kind))
    return list(kind.__iter__(owner))


def _slot(owner: object, value: object) -> Step | None:
    name = plain.slot(owner, value)
    return None if name is None else ((Link(f".{name}", "attribute"),), 1)


def _after(before: Link, link: Link) -> Link:
    """Repeat a variable's name where `.x` or `[0]` would read as part of something else."""
    words = before.text.split()
    place = {"closure": 2, "default": 1}.get(before.kind, len(words))
    if link.text.startswith((".", "[")) and place < len(words):
        return Link(f"{words[place]}{link.text}", link.kind, link.site)
    return link
