"""What the faults that a running program shows have in common: how a leak becomes a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure import sites
from tenure.faults.base import Fault
from tenure.findings import Edit, Finding, Fix, Place
from tenure.model import Site, size

if TYPE_CHECKING:
    from tenure.analysis.leaks.lines import Store
    from tenure.analysis.leaks.model import Leak

_STORES = 2  # places told of many that put things into the same container


def told(fault: Fault, leak: Leak, message: str, fix: Fix, reason: str = "", extra: tuple[Site, ...] = ()) -> Finding:
    """The finding: where the things are made, where they are put, and who holds them."""
    places = [Place.at("birth", site) for site in leak.born[:1]]
    places += [Place.at("holder", site) for site in (*extra, *_holding(leak))]
    evidence = {
        "framework": leak.framework,
        "count": leak.count,
        "bytes": leak.bytes,
        "retained": leak.retained,
        "steps": leak.steps,
        "bytes_per_step": leak.retained // _turns(leak)[0],
        "path": leak.path,
        "suspect": leak.suspect,
    }
    holding = next((place for place in places if place.role == "holder"), None)
    return fault.finding(
        message, _distinct(places), reason=reason, fix=fix, evidence=evidence, at=holding or next(iter(places), None)
    )


def rate(leak: Leak) -> str:
    """How much more there is each time: `32.0 KiB more in each step`."""
    turns, when = _turns(leak)
    if leak.carries_graph and leak.what == "buffers" and leak.retained < turns * 1024:
        return f"one graph more in each {when}"  # its nodes are no tensor's bytes
    if leak.retained:
        return f"{size(leak.retained // turns)} more in each {when}"
    return f"{leak.name} so far" if leak.what == "nodes" else f"one more in each {when}"


def _turns(leak: Leak) -> tuple[int, str]:
    """How many turns it took, and what they are called. Things may be kept in a loop that is not the training's."""
    if leak.turns > 1 and (leak.steps > 1 or leak.turns * 8 >= leak.count >= leak.turns / 8):
        return leak.turns, "step"
    return max(1, leak.count), "turn"


def name(leak: Leak) -> str:
    """The container as the user would say it, in quotes; empty if nobody knows."""
    return f"`{leak.container}`" if leak.container else "something"


def stored(leak: Leak) -> Store | None:
    """The statement that puts them where they stay: the last one that adds, if there is one."""
    adding = [store for store in leak.stores if store.how != "set"]
    return next(iter(adding or [store for store in leak.stores if store.uses_itself] or leak.stores), None)


def edited(leak: Leak, suffix: str, message: str) -> Fix:
    """The fix that writes `.item()` or `.detach()` behind what is stored, where that is one value."""
    store = stored(leak)
    if store is None or store.span is None:
        return Fix(message)
    start, end = store.span
    new = f"({store.value}){suffix}" if store.loose else f"{store.value}{suffix}"
    return Fix(f"{message}: `{new}`", edits=(Edit(store.site.file, start, end, new),))


def _holding(leak: Leak) -> list[Site]:
    store = stored(leak)
    found = [] if store is None else [store.site]
    found += [other.site for other in leak.stores if other is not store and other.how != "set"]
    found = found[:_STORES]
    # What has no statement of its own: a cache, a function that closes over it, a variable.
    own = [link.site for link in leak.links if link.site is not None and link.kind in ("cache", "closure", "default")]
    if not found and not own:
        own = [link.site for link in leak.links if link.site is not None]
    return [site for site in (*found, *own[:_STORES]) if sites.is_user(site.file)]


def _distinct(places: list[Place]) -> list[Place]:
    return list({(place.file, place.line, place.role): place for place in places}.values())
