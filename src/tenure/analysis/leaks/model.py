"""A leak, as the faults that it may be look at it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tenure.analysis.leaks.lines import Store
from tenure.model import Holder, Link, Site, size

_OTHERS = ("closure", "exception", "hook", "default", "generator")
_INDEX = re.compile(r"\[(\d+)\]$")


@dataclass(frozen=True)
class Leak:
    """Things of one origin of which more and more stayed alive.

    `what` they are and `name` are told in `tenure.frameworks.base.Crowd`. `count` and `bytes` are what there was when it
    was last seen growing, `turns` how many steps went by until then, and `steps` in how many of them those that are left
    were born: both 0 or 1 where there were no steps. `holder` is who kept them, if somebody was found; `stores` are the
    statements that put them there; `retained` is what else the same holder keeps.
    """

    framework: str
    what: str
    name: str
    born: tuple[Site, ...]
    count: int
    bytes: int
    steps: int
    turns: int
    holder: Holder | None
    stores: tuple[Store, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    retained: int = 0
    kinds: int = 1  # how many birthplaces are told together
    hooks: frozenset[str] = frozenset()  # functions that the files involved register as hooks
    retaining: tuple[Site, ...] = ()  # where they tell backward to keep its graph

    @property
    def links(self) -> tuple[Link, ...]:
        """The holder's path, root first."""
        return () if self.holder is None else self.holder.links

    def has(self, *kinds: str) -> bool:
        """Whether a link of the path is of one of these kinds."""
        return any(link.kind in kinds for link in self.links)

    @property
    def carries_graph(self) -> bool:
        """Whether an autograd graph is kept with them."""
        return self.what == "nodes" or bool(self.facts.get("graph")) or self.has("autograd")

    @property
    def is_scalar(self) -> bool:
        """Whether they are single numbers."""
        return self.facts.get("shape") == [] or self.facts.get("shape") == [1]

    @property
    def grows_at(self) -> Link | None:
        """The link at which things pile up."""
        at = grows_at(self.links)
        return None if at is None else self.links[at]

    @property
    def suspect(self) -> int | None:
        """The link that should not be: the last name before things pile up."""
        at = grows_at(self.links)
        return None if at is None else max(0, at - 1)

    @property
    def container(self) -> str:
        """The name under which they pile up, as the user would say it."""
        if self.holder is None:
            return ""
        at = grows_at(self.links)
        graph = next((place for place, link in enumerate(self.links) if link.kind in ("autograd", "saved")), None)
        ends = [place for place in (at, graph) if place is not None]
        told = Holder(self.holder.kind, self.links[: max(1, min(ends, default=len(self.links)))])
        return told.name

    @property
    def path(self) -> list[str]:
        """The holder's path as lines to read."""
        return list(_told(self.holder)) if self.holder is not None else []

    @property
    def amount(self) -> str:
        """How much it is, in words: `40 buffers, 1.2 MiB`."""
        noun = {
            "buffers": "buffers",
            "nodes": "steps' graph nodes",
            "traces": "traces",
            "operations": "additions",
            "tapes": "tapes",
            "shared": "shared tensors",
        }[self.what]
        return f"{self.count:,} {noun}" + (f", {size(self.bytes)}" if self.bytes else "")


def grows_at(links: tuple[Link, ...]) -> int | None:
    """The place of the link at which things pile up: of several lists on the way the one that is the longest."""
    kinds = [link.kind for link in links]
    if "cache" in kinds[1:]:
        return kinds.index("cache", 1)
    items = [(int(match[1]), at) for at, link in enumerate(links) if at and link.kind in ("item", "bounded") and (match := _INDEX.search(link.text))]  # fmt: skip
    if items and max(items)[0] > 1:
        return max(items)[1]
    for choice in (("entry", "key"), ("item", "bounded"), _OTHERS):
        found = [at for at, kind in enumerate(kinds) if at and kind in choice]
        if found:
            return found[-1] if choice is not _OTHERS else found[0]
    return None


def family(holder: Holder | None) -> tuple[str, ...]:
    """What holders of the same container have in common: the path to it, without positions."""
    if holder is None:
        return ()
    if holder.kind == "cycle":
        return ("cycle", *(re.sub(r"\d+", "#", link.text) for link in holder.links[:3]))
    at = grows_at(holder.links)
    links = holder.links[: len(holder.links) if at is None else at]
    named = [link.text for link in links if link.kind not in ("autograd", "saved", "grad", "thread")]
    # The same object may be reached by `self` here and by a global there: its attributes name it.
    attributes = [text for text in named if text.startswith(".")]
    return tuple(attributes[-1:] or named[-1:])


def _told(holder: Holder) -> Iterator[str]:
    for at, link in enumerate(holder.links):
        kind = f"{holder.kind} " if at == 0 and holder.kind in ("local", "global", "class", "cycle") else ""
        where = f" ({link.site.short})" if link.site else ""
        yield f"{kind}{link.text}{where}"
