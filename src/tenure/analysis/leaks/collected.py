"""What was collected for a use that came: a loop that keeps its results, and works on all of them when it is done."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tenure.analysis.rows import rows_of
from tenure.analysis.scan import Scan

_SAMPLE = 256  # of those alive, where their stacks must be asked for one by one


def used_later(scan: Scan, stacks: Collection[str]) -> set[str]:
    """Those of these birthplaces of whose buffers most lived past the birth of the last, and were used after it."""
    known: dict[str, set[str]] = {}  # by the site that a stack begins with
    for text in {text for source in scan.sources for text in source.texts("stack")}:
        known.setdefault(text.partition("\n")[0], set()).add(text)
    sites = {site: place for site, texts in known.items() if (place := {_place(text) for text in texts} & set(stacks))}
    lasts = scan.sites()["last"].to_pylist()
    found = set()
    for number, site in enumerate(scan.words("site")):
        if site in sites and number < len(lasts) and lasts[number]:
            by_place = _by_place(scan, number, lasts[number], known[site])
            found |= {place for place in sites[site] if _most_are_late(by_place.get(place, ()), lasts[number])}
    return found


def _place(stack: str) -> str:
    """A stack as suspects tell it: a line that calls itself is there once."""
    return "\n".join(dict.fromkeys(stack.split("\n")))


def _by_place(scan: Scan, site: int, moment: int, stacks: Collection[str]) -> dict[str, list[Any]]:
    """Who of a site was alive at a moment, by stacks. Where there are several, a few are asked for theirs."""
    from pyarrow import compute

    alive = scan.alive(moment)
    lives = alive.filter(compute.equal(alive["site"], site)).to_pylist()
    if len(stacks) == 1:
        return {_place(stack): lives for stack in stacks}
    few = lives[:: max(1, len(lives) // _SAMPLE)]
    rows = rows_of(scan, few, ("stack",))
    found: dict[str, list[Any]] = {}
    for life in few:
        row = rows.get((life["process"], life["buffer"]))
        if row is not None and row["stack"]:
            found.setdefault(_place(row["stack"]), []).append(life)
    return found


def _most_are_late(lives: Collection[Any], moment: int) -> bool:
    late = [life for life in lives if life["last_use"] > moment]
    return len(late) > len(lives) / 2
