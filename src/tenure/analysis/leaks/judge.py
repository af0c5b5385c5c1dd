"""Which suspects are leaks.

A cache that fills up stops growing; a queue of bounded length says so; activations come and go; what a loop collects
for a use after it is used then, by all of them. What is left, and grew to the last look, leaked.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from tenure import sites
from tenure.analysis.leaks import lines, matching, uses
from tenure.analysis.leaks.collected import used_later
from tenure.analysis.leaks.model import SMALL, Leak, family, grows_at, is_private
from tenure.analysis.scan import Scan
from tenure.model import Holder, Link, Site
from tenure.trace import suspects
from tenure.trace.suspects import Look, Suspect

_LEAST = 8  # of one origin
_RISES = 3  # looks with more than the one before
_FACTOR = 1.3  # from half of the events to the last
_CLEARLY = 1.5  # the same, where temporary buffers come and go as well
_PASSING = 4  # a fall by less than this part of the last count is that of temporary buffers from the same line
_CYCLES = 5  # waiting for the collector together
_NAMED = ("attribute", "local", "global", "class", "hook", "optimizer")
_OPTIMIZER = ("state", "param_groups")  # what an optimizer keeps, by parameter
# What JAX calls the programs of its loops and branches, and the functions that make them.
_CONTROL = {"scan": ("scan", "fori_loop"), "while": ("while_loop", "fori_loop"), "cond": ("cond", "switch")}
_MANY = ("item", "cache", "closure", "exception", "hook", "default", "generator", "thread", "autograd", "key")


def leaks(path: Path, scanned: Callable[[], Scan]) -> tuple[Leak, ...]:
    """The leaks of a run, those that keep the most first; `scanned` is asked for only if somebody is suspected."""
    if not path.is_dir():
        return ()
    grown = [suspect for suspect in suspects.heard(path) if _grew(suspect) and not _is_by_design(suspect)]
    used = _used_later(scanned, [suspect for suspect in grown if not _pins(suspect)])
    # The buffers alone: what else comes from their line, such as the traces of the function that gives them, is not used.
    # A step of an optimizer counts as a use of all that it has: that is no use of a parameter that nothing else knows.
    return _leaks(
        suspect
        for suspect in grown
        if suspect.what != "buffers" or suspect.stack not in used or _pins(suspect) or _is_only_an_optimizers(suspect)
    )


def so_far(found: Iterable[Suspect]) -> tuple[Leak, ...]:
    """What these would be if the run ended now. They may still be used, or let go: it is no verdict yet."""
    return _leaks(suspect for suspect in found if _grew(suspect) and not _is_by_design(suspect))


def _leaks(grown: Iterable[Suspect]) -> tuple[Leak, ...]:
    found = [leak_of(suspect) for suspect in grown]
    return tuple(sorted(together(found), key=lambda leak: (-leak.retained, -leak.count, leak.name)))


def _grew(suspect: Suspect) -> bool:
    looks = _while_it_lived(_since_the_first_step(suspect.looks))
    holder = _best(suspect)
    if holder is not None and holder.kind == "cycle":
        # The collector comes by now and then: what counts is that so many waited for it.
        return max((look.count for look in looks), default=0) >= _CYCLES
    if _pins(suspect):
        return _only_rose(_while_it_lived(suspect.looks))
    if not looks or looks[-1].count < _LEAST:
        return False
    if suspect.what == "operations":  # counted run by run, not look by look
        return len(looks) < 2 or looks[-1].count > looks[-2].count
    tail = looks[-_RISES - 2 :]
    rises = sum(after.count > before.count for before, after in pairwise(tail))
    falls = any(after.count < before.count * 0.9 for before, after in pairwise(tail))
    half = [look.count for look in looks if look.events <= looks[-1].events / 2]
    enough = min(_RISES, len(looks) - 1) if len(looks) >= 3 or suspect.what == "traces" else _RISES
    if rises >= enough and not falls:
        return looks[-1].count >= _FACTOR * (half[-1] if half else 1)
    return suspect.what == "buffers" and _rose_below(looks)


def _rose_below(looks: Sequence[Look]) -> bool:
    """Return whether what a line keeps rose, below the temporary buffers that the same line makes and that come and go.

    What was alive at a check and at every later one was kept. What is emptied now and then falls too far.
    """
    counts = [look.count for look in looks]
    kept = [min(counts[at:]) for at in range(len(counts))]
    first = [look.count for look in looks if look.events <= looks[-1].events / 2]
    tail = kept[-_RISES - 3 :]
    return (
        len(first) >= _RISES
        and counts[-1] >= _LEAST
        and not _falls_far(counts)
        and sum(after > before for before, after in pairwise(tail)) >= _RISES
        and counts[-1] >= _CLEARLY * max(first)
    )


def _falls_far(counts: Sequence[int]) -> bool:
    """Return whether there were once many fewer than before: the temporary buffers of a line are few next to what it kept."""
    return any(before - after > max(before * 0.1, counts[-1] / _PASSING) for before, after in pairwise(counts))


def _pins(suspect: Suspect) -> bool:
    """Whether small views keep large buffers: that wastes memory also where all of the views are used later.

    All handles on a buffer count, so that a list of all rows of a batch wastes nothing. What a graph saved has other users.
    """
    whole, viewed = suspect.facts.get("whole") or 0, suspect.facts.get("viewed") or 0
    if suspect.what != "buffers" or not 0 < viewed * 4 <= whole or suspect.facts.get("graph"):
        return False
    return not any(link.kind in ("autograd", "saved") for holder in suspect.holders for link in holder.links)


def _only_rose(looks: Sequence[Look]) -> bool:
    """Whether there were more and more of them, and they stayed."""
    counts = [0, *(look.count for look in looks)]
    rises = sum(after > before for before, after in pairwise(counts))
    falls = any(after < before * 0.9 for before, after in pairwise(counts))
    return (rises >= _RISES and not falls and counts[-1] >= _LEAST) or _rose_below(looks)


def _since_the_first_step(looks: Sequence[Look]) -> Sequence[Look]:
    """Without what was made before the first step, where there are steps: a program sets itself up, and is done."""
    before = [look for look in looks if not look.step]
    return [*before[-1:], *looks[len(before) :]] if len(before) < len(looks) else looks


def _while_it_lived(looks: Sequence[Look]) -> list[Look]:
    """The looks up to the end of whoever held it: a function returns, and its variables end with it."""
    kept = list(looks)
    if len(kept) > 1 and kept[-1].count <= kept[-2].count:
        kept.pop()  # the last look, when all is done
    most = max((look.count for look in kept), default=0)
    while len(kept) > 1 and kept[-1].count < most / 2:
        kept.pop()
    return kept


def _is_by_design(suspect: Suspect) -> bool:
    """What grows because it is meant to, or of which nobody can say that it is not."""
    holder = _best(suspect)
    if suspect.what == "operations":
        return not suspect.stack
    if suspect.what == "traces":  # of a function that the user has a name for
        if suspect.framework == "jax" and suspect.name in _CONTROL:
            return not _control_flow(suspect)
        return not any(lines.mentions(site.file, suspect.name) for site in sites.read(suspect.stack))
    if holder is None:
        return suspect.what == "buffers"
    if holder.kind == "cycle":
        return not _is_of_the_users(holder, suspect)
    if any(link.kind == "bounded" for link in holder.links) or holder.kind == "native":
        return True
    first = holder.links[0].site
    if holder.kind == "local" and first is not None and not sites.is_user(first.file):
        return True  # a library at work
    if holder.kind == "array" and not _is_small_view(holder, suspect):
        return True  # what NumPy does with it later is not seen
    graph = bool(suspect.facts.get("graph")) or any(link.kind == "autograd" for link in holder.links)
    if graph or suspect.what != "buffers":
        return False
    if grows_at(holder.links) is None and holder.links[0].kind not in ("thread", "generator", "coroutine"):
        return True  # one name cannot hold many
    if suspect.framework == "tensorflow" and _is_a_librarys_list(holder, suspect):
        return True
    if suspect.facts.get("parameter") and not any(
        link.kind in ("cache", "closure", "exception") for link in holder.links
    ):
        # Parts of a model; but not those of one that only its optimizer or a cache still knows.
        return not _is_only_an_optimizers(suspect)
    looks = _while_it_lived(suspect.looks)
    return looks[-1].bytes / max(1, looks[-1].count) <= SMALL


def _control_flow(suspect: Suspect) -> str:
    """Return the loop or branch of JAX that the user's line calls with a function that it has just jitted, or ""."""
    site = next(iter(sites.read(suspect.stack)), None)
    return "" if site is None else lines.with_jitted_body(site, _CONTROL[suspect.name])


def _is_only_an_optimizers(suspect: Suspect) -> bool:
    """Return whether these are parameters that only optimizers still reference: their model has others now, or is gone."""
    known = [holder for holder in suspect.holders if holder.kind != "native"]
    reached = all(any(link.kind == "optimizer" for link in holder.links) for holder in known)
    return bool(suspect.facts.get("parameter")) and bool(known) and reached


def _is_a_librarys_list(holder: Holder, suspect: Suspect) -> bool:
    """Return whether they are in a private list of one object, of which the program has no word: its variables, say.

    A line such as `model.fit(...)` creates much, and what is left of earlier models waits for the collector.
    """
    at = grows_at(holder.links)
    link = holder.links[at - 1] if at else None
    if link is None or not is_private(link):
        return False
    files = [site.file for site in sites.read(suspect.stack) if sites.is_user(site.file)]
    return not any(lines.mentions(file, _name(link)) for file in files)


def _is_small_view(holder: Holder, suspect: Suspect) -> bool:
    whole = suspect.facts.get("whole") or 0
    return holder.nbytes is not None and holder.nbytes * 4 <= whole


def _is_of_the_users(holder: Holder, suspect: Suspect) -> bool:
    """Whether the user's own code closes the cycle: a library's is not theirs to mend."""
    places = [link.site for link in holder.links if link.site is not None]
    files = [site.file for site in sites.read(suspect.stack)]
    if any(sites.is_user(place.file) for place in places):
        return True
    names = [link.text.rpartition(".")[2] for link in holder.links if link.kind == "attribute"]
    graph = any(link.kind == "autograd" for link in holder.links)
    return (graph and bool(lines.calls(files, "backward", "create_graph"))) or any(
        lines.sets_attribute(files, name) for name in names
    )


def _best(suspect: Suspect) -> Holder | None:
    """The holder to tell: the user's own before a library's, and rather a container than a variable in passing."""

    def rank(holder: Holder) -> tuple[bool, bool, bool, bool]:
        site = next((link.site for link in holder.links if link.site is not None), None)
        foreign = site is not None and not sites.is_user(site.file)
        # A record that a variable names for now holds one of them; what holds many has a list, a hook, a cache.
        passing = holder.kind == "local" and not any(link.kind in _MANY for link in holder.links)
        if suspect.framework == "tensorflow":
            passing = passing or _is_a_librarys_list(holder, suspect)
        if suspect.what == "nodes":  # what another graph has saved of a value does not hold the value's own graph
            passing = any(link.kind == "saved" for link in holder.links)
        # Of several names that lead into the same graph, the state that each step computes from itself carries it on.
        later = any(link.kind == "autograd" for link in holder.links) and not _is_state(holder, suspect)
        return holder.kind == "native", foreign, passing, later

    return min(suspect.holders, key=rank, default=None)


def _is_state(holder: Holder, suspect: Suspect) -> bool:
    named = _container(holder)
    files = _files(holder, sites.read(suspect.stack))
    return bool(named) and any(store.uses_itself for store in lines.stores(files, _name(named[0])))


def _used_later(scanned: Callable[[], Scan], grown: Iterable[Suspect]) -> set[str]:
    """The birthplaces whose buffers were collected for a use that came, or may have come unseen."""
    asked = {
        suspect.stack
        for suspect in grown
        if suspect.what == "buffers" and not (_graph(suspect) and max(look.steps for look in suspect.looks) > 3)
    }
    if not asked:
        return set()
    scan = scanned()
    # What was collected may have been used where uses are not recorded: JAX's are not without the native recorder.
    unseen = {"jax"} if not all(source.tells_uses for source in scan.sources) else set()
    unknown = {suspect.stack for suspect in grown if suspect.stack in asked and suspect.framework in unseen}
    return used_later(scan, asked) | unknown


def _graph(suspect: Suspect) -> bool:
    holder = _best(suspect)
    return bool(suspect.facts.get("graph")) or (
        holder is not None and any(link.kind == "autograd" for link in holder.links)
    )


def leak_of(suspect: Suspect) -> Leak:
    """What is known of a suspect, as a leak."""
    looks = _while_it_lived(suspect.looks)
    last = max(looks, key=lambda look: look.count)
    holder = _best(suspect)
    born = sites.read(suspect.stack)
    files = _files(holder, born)
    return Leak(
        framework=suspect.framework,
        what=suspect.what,
        name=(suspect.what == "traces" and suspect.name in _CONTROL and _control_flow(suspect)) or suspect.name,
        born=born,
        count=last.count,
        bytes=last.bytes,
        steps=max(look.steps for look in looks),
        turns=last.step,
        holder=holder,
        stores=tuple(_stores(holder, files, born)),
        facts=suspect.facts,
        retained=last.bytes,
        hooks=lines.hook_functions(files),
        **_uses(holder, files),
        retaining=tuple(
            site for keyword in ("create_graph", "retain_graph") for site in lines.calls(files, "backward", keyword)
        ),
    )


def _files(holder: Holder | None, born: Sequence[Site]) -> list[str]:
    links = () if holder is None else holder.links
    files = [site.file for site in born] + [link.site.file for link in links if link.site is not None]
    return [file for file in files if sites.is_user(file)]


def _stores(holder: Holder | None, files: Sequence[str], born: Sequence[Site]) -> list[lines.Store]:
    if holder is None:
        return []
    at = grows_at(holder.links)
    named = holder.links if holder.kind == "cycle" else holder.links[: len(holder.links) if at is None else at]
    hooks: list[lines.Store] = []
    if any(link.kind == "hook" for link in holder.links):
        hooks = lines.hooks(files)
    for place in range(len(named)) if holder.kind == "cycle" else reversed(range(len(named))):
        if named[place].kind in _NAMED:
            found = lines.reaching(lines.stores(files, _name(named[place])), named[place])
            if named[place].kind == "optimizer":  # the program has other things of that name, and sets those
                both = ([one for one in lines.stores(files, name) if one.how != "set"] for name in _OPTIMIZER)
                found = next((own for own in both if own), [])
            if found:
                keys = [] if holder.kind == "cycle" else _keys(named[place + 1 :])
                inner = holder.links[len(named) + (at is not None) :]
                return [*hooks, *matching.holding(found, keys, inner, born)]
    return hooks


def _keys(links: Sequence[Link]) -> list[str]:
    return [link.text for link in links if link.text.startswith("[")]


def _uses(holder: Holder | None, files: Sequence[str]) -> dict[str, bool]:
    """What the program does with what it keeps there; nothing is assumed of a container without a name."""
    named = _container(holder)
    if not named:
        return {"differentiated": True}
    name, keys = _name(named[0]), tuple(_keys(named[1:]))
    return {
        "number": uses.as_numbers(files, name, keys),
        "read": uses.is_read(files, name, keys),
        "differentiated": uses.is_differentiated(files, name),
    }


def _container(holder: Holder | None) -> Sequence[Link]:
    """The last link with a name before things pile up, and the subscripts after it."""
    if holder is None:
        return ()
    at = grows_at(holder.links)
    links = holder.links[: len(holder.links) if at is None else at]
    place = max((place for place, link in enumerate(links) if link.kind in _NAMED), default=None)
    return () if place is None else links[place:]


def _name(link: Link) -> str:
    return re.split(r"[.\[\s]", link.text)[-1] if link.text.startswith(".") else re.split(r"[\[\s(]", link.text)[0].rpartition(".")[2]  # fmt: skip


def together(found: Iterable[Leak]) -> list[Leak]:
    """One leak for each container: first what lies in it, then what that keeps alive in turn."""
    groups: dict[tuple[str, ...], list[Leak]] = {}
    for leak in found:
        key = family(leak.holder) or (leak.what, leak.name, str(leak.born[:1]))
        groups.setdefault(key, []).append(leak)
    told = []
    for group in groups.values():
        most = max(leak.bytes for leak in group)
        direct = sorted(group, key=lambda leak: _directness(leak, most))
        born = next((leak.born for leak in direct if leak.born), ())  # a graph's nodes have none: what it saved has
        retained = sum(leak.bytes for leak in group)
        told.append(dataclasses.replace(direct[0], born=born, retained=retained, kinds=len(group)))
    return told


def _directness(leak: Leak, most: int) -> tuple[object, ...]:
    """What the container holds itself comes before what a graph, an optimizer or a parameter holds in turn.

    Then the largest; of those about as large, which the last look caught one more or less of, the innermost call's.
    """
    return (
        leak.has("autograd", "saved", "grad"),
        leak.what == "nodes",
        leak.has("optimizer") and not leak.facts.get("parameter"),
        -leak.bytes if leak.bytes < most * 0.9 else -most,
        -len(leak.born),
        str(leak.born[:1]),
    )
