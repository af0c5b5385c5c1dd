"""The memory that a test left allocated: what grew, what retains it, and whether that is a leak or a warm cache.

Between two tests a program is at rest, so whatever is still alive, is kept. Not all of it is a mistake: a fixture of
the module keeps its model, a library its tables, a cache its first entry, a name its last value. Without a limit of the
user's only what piles up counts: in a list or another container, in hooks, closures, threads and kept exceptions.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenure import sites
from tenure.analysis import holders
from tenure.analysis.leaks import Leak, judge
from tenure.analysis.leaks.model import grows_at
from tenure.faults import IN_RUN, tn315_other_name_holds
from tenure.findings import Finding, Fix, Place
from tenure.frameworks.base import Crowd, Growing
from tenure.integrations.watched import Birthplace
from tenure.model import Holder, size
from tenure.trace.suspects import Look, Suspect

_SEARCHED = 6  # birthplaces whose holders are searched for, those of the most bytes
_HOLDERS = 8
_SMALL = 256  # bytes of something without a graph that nobody should be troubled with
_ENTRIES = 3  # that a cache gets in one test before it is no warming up
_PACKAGES = ("site-packages", "dist-packages")
_WAITING = ("thread", "generator", "coroutine", "exception")


@dataclass(frozen=True)
class Left:
    """The memory left from one allocation site. `piles`: it is a leak, whatever the limit."""

    count: int
    nbytes: int
    leak: Leak | None
    piles: bool


def findings(left: Iterable[Left]) -> list[Finding]:
    """Return the findings for what is left, leaks first, and only where a holder is known."""
    piles = judge.together(one.leak for one in left if one.leak is not None and one.piles)
    single = judge.together(one.leak for one in left if one.leak is not None and not one.piles)
    found = [next((told for fault in IN_RUN if (told := fault.in_run(leak)) is not None), None) for leak in piles]
    told = [finding or _kept(leak) for finding, leak in zip(found, piles, strict=True)]
    return [*told, *map(_kept, single)]


class Search:
    """The search for who holds what is left. Birthplaces that only fill caches are added to `dull`."""

    def __init__(self, root: Path, dull: set[Birthplace]) -> None:
        self._own = _packages(root)
        self._dull = dull

    def look(
        self, crowds: list[tuple[Crowd, Growing]], wanted: Mapping[Birthplace, tuple[int, int]]
    ) -> tuple[list[Left], int]:
        """Return what is left from these allocation sites, without what fixtures and libraries keep, and its bytes."""
        chosen = [pair for pair in crowds if (pair[0].framework, pair[0].stack) in wanted]
        crowds.clear()
        chosen.sort(key=lambda pair: -wanted[pair[0].framework, pair[0].stack][1])
        found, spared = [], 0
        collecting = gc.isenabled()
        gc.disable()
        try:
            for at, (crowd, growing) in enumerate(chosen):
                place = crowd.framework, crowd.stack
                count, nbytes = wanted[place]
                if at >= _SEARCHED:
                    found.append(Left(count, nbytes, None, piles=False))
                    continue
                facts, held = _holders(crowd, growing, count)
                own = [holder for holder in held if self._is_own(holder)]
                if held and not own:
                    spared += nbytes
                    self._dull.add(place)
                    continue
                found.append(self._left(crowd, count, nbytes, facts, own))
                if not found[-1].piles:
                    self._dull.add(place)
        finally:
            chosen.clear()
            if collecting:
                gc.enable()
        return found, spared

    def _left(self, crowd: Crowd, count: int, nbytes: int, facts: dict[str, Any], own: list[Holder]) -> Left:
        if not own:
            return Left(count, nbytes, None, piles=False)
        look = Look(0, 0, count, nbytes, 0)
        leak = judge.leak_of(Suspect(crowd.framework, "buffers", crowd.stack, crowd.name, [look], own, facts))
        leak = replace(leak, born=tuple(site for site in leak.born if self._is_own_file(site.file)) or leak.born)
        return Left(count, nbytes, leak, piles=_piles_up(leak))

    def _is_own(self, holder: Holder) -> bool:
        """Return whether it belongs to the project: not to a library, and not to a fixture of a wider scope."""
        if any(".cached_result" in link.text for link in holder.links) or holder.kind == "native":
            return False
        first = holder.links[0]
        place = next((link.site for link in holder.links if link.site is not None), None)
        if place is not None:
            return self._is_own_file(place.file)
        module = sys.modules.get(first.text.rpartition(".")[0]) if first.kind == "global" else None
        file = getattr(module, "__file__", None)
        return file is None or self._is_own_file(file)

    def _is_own_file(self, file: str) -> bool:
        if not sites.is_user(file):
            return False
        parts = Path(file).parts
        inside = next((at for at, part in enumerate(parts) if part in _PACKAGES), None)
        return inside is None or (inside + 1 < len(parts) and Path(parts[inside + 1]).stem in self._own)


def _holders(crowd: Crowd, growing: Growing, count: int) -> tuple[dict[str, Any], list[Holder]]:
    """Return a description of one of the newest objects, and the holders of two."""
    members = list(growing.members(crowd))[-count:]
    sample = [members[0], members[-1]] if len(members) > 1 else members
    handles, buffers = growing.held(crowd, sample)
    facts = growing.facts(handles[0]) if handles else {}
    if not handles and not buffers:
        return facts, []
    own = frozenset({id(sample), id(members), id(crowd.members), id(handles), id(crowd)})
    return facts, holders.find(handles, buffers, own, _HOLDERS)


def _piles_up(leak: Leak) -> bool:
    """Return whether each run of the test adds more; one name, or a cache with few entries, does not."""
    links = leak.links
    at = grows_at(links)
    if leak.bytes < _SMALL * leak.count and not leak.carries_graph:
        return False
    if leak.holder is None or leak.has("bounded") or leak.facts.get("parameter"):
        return False
    if links[0].kind in _WAITING or leak.holder.kind in _WAITING:
        return True
    if at is None:
        return False
    if links[at].kind in ("cache", "entry", "key"):
        return leak.count >= _ENTRIES
    # A list that was made whole, or filled when its module was imported, is a table; one that functions add to grows.
    adding = [store for store in leak.stores if store.how in ("add", "augment", "hook") and store.function]
    return links[at].kind != "item" or bool(adding)


def _kept(leak: Leak) -> Finding:
    """Return the finding for memory that is kept, and fits no rule about growth."""
    places = [Place.at("birth", site) for site in leak.born[:1]]
    inside = [
        store for store in leak.stores if leak.born and store.function == leak.born[0].function.rpartition(".")[2]
    ]
    places += [Place.at("holder", store.site) for store in (inside or leak.stores)[:1]]
    if not leak.stores:
        places += [Place.at("holder", link.site) for link in leak.links if link.site is not None][:1]
    return tn315_other_name_holds.FAULT.finding(
        f"`{leak.container}` still references {size(leak.retained)} that the test created",
        places,
        reason="Something outside the test still references this memory after the test.",
        fix=Fix("reset it after the test (monkeypatch, or a fixture with a teardown), or store no tensor there"),
        evidence={"framework": leak.framework, "count": leak.count, "bytes": leak.bytes, "path": leak.path},
    )


def _packages(root: Path) -> frozenset[str]:
    """Return the names of the project's own packages, which may be tested where they are installed."""

    def names(folder: Path) -> Iterable[str]:
        try:
            return [entry.stem for entry in folder.iterdir() if entry.is_dir() or entry.suffix == ".py"]
        except OSError:
            return []

    return frozenset((*names(root), *names(root / "src")))
