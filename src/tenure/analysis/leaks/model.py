"""A leak, as the rules see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tenure.analysis.leaks import lines
from tenure.analysis.leaks.lines import Store
from tenure.model import Holder, Link, Site, size

SMALL = 256  # bytes of something kept without a graph that need no report
_OTHERS = ("closure", "exception", "hook", "default", "generator")
_INDEX = re.compile(r"\[(\d+)\]$")


@dataclass(frozen=True)
class Leak:
    """Objects of one origin that stay alive in growing numbers.

    Attributes:
        framework: "torch", "tensorflow" or "jax".
        what: What grows: "buffers", "nodes" (of autograd graphs), "traces", "operations", "tapes" or "shared".
        name: The name of the group, such as the function that is traced.
        born: The `Site` of each allocation, innermost first.
        count: The number of objects when they were last seen growing.
        bytes: Their bytes.
        steps: The number of steps in which they were created; 0 or 1 without steps.
        turns: The number of steps until they were last seen growing; 0 or 1 without steps.
        holder: The `Holder` that retains them, or None if none was found.
        stores: The statements that store them.
        facts: What is known about one of them, such as its shape.
        retained: The bytes that the same holder retains besides them.
        kinds: The number of allocation sites that this leak combines.
        hooks: The functions that the files involved register as hooks.
        retaining: The `Site` of each call that passes `retain_graph=True`.
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
    number: bool = False  # whether the program would do with Python numbers in place of these tensors
    read: bool = False  # whether it reads the values that the container keeps
    differentiated: bool = False  # whether the program calls backward() on what it computes from the container

    @property
    def links(self) -> tuple[Link, ...]:
        """The links of the reference path, root first."""
        return () if self.holder is None else self.holder.links

    def has(self, *kinds: str) -> bool:
        """Return whether the reference path has a link of one of these kinds."""
        return any(link.kind in kinds for link in self.links)

    @property
    def carries_graph(self) -> bool:
        """True if they keep an autograd graph alive."""
        return self.what == "nodes" or bool(self.facts.get("graph")) or self.has("autograd")

    @property
    def is_scalar(self) -> bool:
        """True if they are single numbers."""
        return self.facts.get("shape") == [] or self.facts.get("shape") == [1]

    @property
    def is_large(self) -> bool:
        """True if one of them would be reported even without a graph."""
        return bool((self.facts.get("bytes") or 0) > SMALL)

    def end_of_loop(self, store: Store, method: str) -> tuple[tuple[int, int], str] | None:
        """Return the end of the loop around a statement that calls this method, and how the loop is indented."""
        return lines.end_of_loop(store, method)

    @property
    def grows_at(self) -> Link | None:
        """The link at which they accumulate."""
        at = grows_at(self.links)
        return None if at is None else self.links[at]

    @property
    def suspect(self) -> int | None:
        """The index of the link to remove: the last name before they accumulate."""
        at = grows_at(self.links)
        return None if at is None else max(0, at - 1)

    @property
    def container(self) -> str:
        """The name under which they accumulate, as the user would write it."""
        if self.holder is None:
            return ""
        at = grows_at(self.links)
        graph = next((place for place, link in enumerate(self.links) if link.kind in ("autograd", "saved")), None)
        ends = [place for place in (at, graph) if place is not None]
        told = Holder(self.holder.kind, self.links[: max(1, min(ends, default=len(self.links)))])
        return told.name

    @property
    def state(self) -> str:
        """The variable or attribute that holds the tensor itself, or a tuple of tensors, as the source writes it; else ""."""
        plain = [link for link in self.links if link.kind not in ("autograd", "saved", "thread")]
        named = [link for link in plain if link.kind in ("local", "global", "attribute")]
        rest = plain[len(named) :]
        if not named or plain[: len(named)] != named or [link.kind for link in rest] not in ([], ["part"]):
            return ""
        return "".join(link.text for link in named)

    @property
    def in_tuple(self) -> bool:
        """True if the state is a tuple of tensors."""
        return self.has("part")

    @property
    def path(self) -> list[str]:
        """The reference path as lines of text."""
        return list(_told(self.holder)) if self.holder is not None else []

    @property
    def amount(self) -> str:
        """The amount as text: `40 buffers (1.2 MiB)`."""
        noun = {
            "buffers": "buffers",
            "nodes": "steps' graph nodes",
            "traces": "traces",
            "operations": "additions",
            "tapes": "tapes",
            "shared": "shared tensors",
        }[self.what]
        return f"{self.count:,} {noun}" + (f" ({size(self.bytes)})" if self.bytes else "")


def grows_at(links: tuple[Link, ...]) -> int | None:
    """The place of the link at which things pile up: of several lists on the way the one that is the longest."""
    kinds = [link.kind for link in links]
    if "cache" in kinds[1:]:
        return kinds.index("cache", 1)
    items = [(int(match[1]), at) for at, link in enumerate(links) if at and link.kind in ("item", "bounded") and (match := _INDEX.search(link.text))]  # fmt: skip
    # The private lists of an object, such as a model's layers, are of that object: a list of such objects grows.
    items = [one for one in items if not is_private(links[one[1] - 1])] or items
    if items and (max(items)[0] > 1 or any(is_private(links[at - 1]) for at in range(items[0][1], len(links)))):
        return max(items)[1]
    for choice in (("entry", "key"), ("item", "bounded"), _OTHERS):
        found = [at for at, kind in enumerate(kinds) if at and kind in choice]
        if found:
            return found[-1] if choice is not _OTHERS else found[0]
    return None


def is_private(link: Link) -> bool:
    """Return whether a link is an attribute that its class keeps to itself."""
    return link.kind == "attribute" and link.text.startswith("._")


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
