"""The lines of source of a page: what each made, a few of its lives, its stack, and who held what it made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tenure.analysis.amounts import apart, frames, place
from tenure.analysis.leaks import Leak
from tenure.analysis.peak import used_until
from tenure.analysis.rows import births_of, rows_of
from tenure.analysis.scan import NEVER, Scan
from tenure.analysis.timeline import SAMPLE, thinned
from tenure.model import Holder, Site
from tenure.trace.suspects import Suspect
from tenure.views.html import texts
from tenure.views.html.texts import shown

_BORN = ("op", "shape", "dtype", "stack")
_LATER = ("cause", "site", "last_op", "last_site")
_HOLDERS = 4
_ANY = re.compile(r"\d+")


def sites(scan: Scan, sample: Any, order: dict[int, int], held: dict[tuple[str, int], list[Any]]) -> list[Any]:
    """Return each site to show, in its order. `sample` has lifetimes of all, `held` the holders by file and line."""
    lives = _by_site(sample, order)
    largest = [max(rows, key=lambda life: life["bytes"]) for rows in lives.values()]
    born, later = births_of(scan, largest, _BORN), rows_of(scan, largest, _LATER, end=True)
    totals = scan.sites().to_pylist()
    found = []
    for number in order:
        word, rows = scan.words("site")[number], lives.get(number, [])
        file, line, function = apart(word)
        told: dict[str, Any] = {
            "number": number,
            "name": shown(word),
            "file": file and shown(file),
            "line": line,
            "function": function and shown(function, 120),
            **{name: totals[number][name] for name in ("births", "bytes", "count", "alive")},
            "drag": totals[number]["drag"] / 1e6 if scan.tells_uses else 0.0,
            "lives": lives_told(scan, rows),
            "holders": held.get((file or "", line or 0), [])[:_HOLDERS],
        }
        if rows:
            first = max(rows, key=lambda life: life["bytes"])
            key = (first["process"], first["buffer"])
            told |= _about(born.get(key, {}), later.get(key, {}), ended=first["ended"] < NEVER, word=word)
        found.append(told)
    return found


def _by_site(sample: Any, order: dict[int, int]) -> dict[int, list[dict[str, Any]]]:
    """Return some lifetimes of each site, in the order of allocation."""
    from pyarrow import compute

    if sample is None:
        return {}
    found = {}
    ordered = sample.sort_by([("born", "ascending"), ("process", "ascending"), ("buffer", "ascending")])
    for number in order:
        rows = thinned(ordered.filter(compute.equal(ordered["site"], number)), SAMPLE).to_pylist()
        if rows:
            found[number] = rows
    return found


def lives_told(scan: Scan, rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Lives as the page draws them: birth, last use, end (None if it has none), bytes, kind, step and process."""
    first, kinds = scan.facts[0], scan.words("kind")
    found = []
    for life in rows:
        end = None if life["ended"] >= NEVER else life["ended"] - first
        kind = kinds[life["kind"]] if life["kind"] >= 0 else ""
        used = used_until(scan, life) - first
        found.append([life["born"] - first, used, end, life["bytes"], kind, life["step"], life["process"]])
    return found


def _about(born: dict[str, Any], later: dict[str, Any], *, ended: bool, word: str) -> dict[str, Any]:
    """Return the properties of the largest buffers."""
    stack = frames(born.get("stack")) or [site for site in [place(word)] if site]
    told = {name: shown(born[name], 120) for name in ("op", "shape", "dtype") if born.get(name)}
    for name, key in (("last_op", "last_op"), ("last_site", "last_site"), ("cause", "cause"), ("end_site", "site")):
        if later.get(key) and (ended or name.startswith("last")):
            told[name] = shown(later[key])
    return {**told, "stack": texts.frames(stack)}


def holders(leaks: Iterable[Leak], suspects: Iterable[Suspect]) -> dict[tuple[str, int], list[Any]]:
    """Return the holders of a line's buffers. For leaks the link to remove is known; others were only seen to grow."""
    found: dict[tuple[str, int], list[Any]] = {}
    seen: set[tuple[tuple[str, int], str]] = set()

    def add(born: Sequence[Site], holder: Holder, suspect: int | None, label: str) -> None:
        key, way = (born[0].file, born[0].line), _ANY.sub("#", str(holder))  # the same list holds each at its own place
        if (key, way) not in seen:
            seen.add((key, way))
            found.setdefault(key, []).append(texts.holder(holder, suspect, label))

    for leak in leaks:
        if leak.holder is not None and leak.born:
            add(leak.born, leak.holder, leak.suspect, f"leaked: {leak.amount}")
    for one in suspects:
        stack = frames(one.stack)
        for holder in one.holders if stack else ():
            add(stack, holder, None, "seen while it grew")
    return found
