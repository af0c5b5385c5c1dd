"""Shared by the rules that a running program shows: how a leak becomes a finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenure import sites
from tenure.faults.base import Fault
from tenure.findings import Edit, Finding, Fix, Place
from tenure.model import Site, size

if TYPE_CHECKING:
    from tenure.analysis.leaks.lines import Store
    from tenure.analysis.leaks.model import Leak

_STORES = 2  # shown of many statements that add to the same container


def told(fault: Fault, leak: Leak, message: str, fix: Fix, reason: str = "", extra: tuple[Site, ...] = ()) -> Finding:
    """Return the finding for a leak: where the objects are created and stored, and what keeps them alive."""
    places = [Place.at("birth", site) for site in sites.shown(leak.born)]
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
    """Return by how much a leak grows: `+32.0 KiB per step`."""
    turns, when = _turns(leak)
    if leak.carries_graph and leak.what == "buffers" and leak.retained < turns * 1024:
        return f"+1 graph per {when}"  # its nodes are not counted as bytes of a tensor
    if leak.retained:
        return f"+{size(leak.retained // turns)} per {when}"
    return f"{leak.name} so far" if leak.what == "nodes" else f"+1 per {when}"


def _turns(leak: Leak) -> tuple[int, str]:
    """Return the number of iterations and what to call one. The loop may be another than the training loop."""
    if leak.turns > 1 and (leak.steps > 1 or leak.turns * 8 >= leak.count >= leak.turns / 8):
        return leak.turns, "step"
    return max(1, leak.count), "iteration"


def name(leak: Leak) -> str:
    """Return the container's name as the user's source has it, in quotes, or a phrase for an unknown one."""
    return f"`{leak.container}`" if leak.container else "an unidentified object"


def stored(leak: Leak) -> Store | None:
    """Return the statement that stores the objects: the last one that adds to a container, if there is one."""
    return next(iter(_adding(leak)), None)


def _adding(leak: Leak) -> Sequence[Store]:
    adding = [store for store in leak.stores if store.how != "set"]
    return adding or [store for store in leak.stores if store.uses_itself] or leak.stores


def edited(leak: Leak, suffix: str, message: str) -> Fix:
    """Return the fix that appends `.item()` or `.detach()` to the stored value, where it is one value of one statement."""
    store = stored(leak)
    if leak.differentiated and leak.carries_graph:
        return Fix(f"{message}; if a later backward() needs the graph, empty {name(leak)} after that call")
    if not leak.read and suffix != ".item()" and leak.is_large:
        return Fix(
            f"{message}: `{suffix}`; a number, or nothing, may be enough, because the program does not read {name(leak)} again"
        )
    if store is None or store.span is None or len(_adding(leak)) > 1:
        return Fix(f"{message}: `{suffix}`")
    start, end = store.span
    old = store.text
    new = f"({old}){suffix}" if store.loose else f"{old}{suffix}"
    shown = f"({store.value}){suffix}" if store.loose else f"{store.value}{suffix}"
    return Fix(f"{message}: `{shown}`", edits=(Edit(store.site.file, start, end, new),))


def detached_in_loop(leak: Leak, message: str) -> Fix:
    """Return the fix that detaches a state at the end of the loop that calls backward().

    Anywhere else it would cut what this step's backward() still goes through.
    """
    store = stored(leak)
    name = leak.state
    end = None if store is None or not name else leak.end_of_loop(store, "backward")
    if store is None or end is None:
        return Fix(message)
    at, indent = end
    text = f"{name} = tuple(part.detach() for part in {name})" if leak.in_tuple else f"{name} = {name}.detach()"
    edit = Edit(store.site.file, at, at, f"\n{indent}{text}")
    return Fix(f"{message}: `{text}` at the end of the loop", edits=(edit,))


def _holding(leak: Leak) -> list[Site]:
    store = stored(leak)
    found = [] if store is None else [store.site]
    found += [other.site for other in leak.stores if other is not store and other.how != "set"]
    found = found[:_STORES]
    # Without a statement of its own: a cache, a closure, a variable.
    own = [link.site for link in leak.links if link.site is not None and link.kind in ("cache", "closure", "default")]
    if not found and not own:
        own = [link.site for link in leak.links if link.site is not None]
    places = [site for site in (*found, *own[:_STORES]) if sites.is_user(site.file)]
    # A package's own statement is no place to change anything where the user's code has one.
    return [site for site in places if not sites.is_installed(site.file)] or places


def _distinct(places: list[Place]) -> list[Place]:
    return list({(place.file, place.line, place.role): place for place in places}.values())
