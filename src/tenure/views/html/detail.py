"""The details that a served page requests: an interval at full resolution, the buffers at a time, all lifetimes of a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenure.analysis.peak import alive_on, used_until, with_kinds
from tenure.analysis.rows import births_of
from tenure.analysis.scan import NEVER
from tenure.analysis.timeline import lives_of, timeline
from tenure.views.html import data, places
from tenure.views.html.texts import shown

if TYPE_CHECKING:
    from tenure.traces import Trace

_BUFFERS = 60
_LIVES = 240


class Detail:
    """Answers about a trace. Questions are texts from an address; what is none of the right kind is a ValueError."""

    def __init__(self, trace: Trace, sites: Sequence[int]) -> None:
        self._scan = trace.scanned
        self._order = {number: at for at, number in enumerate(sites)}

    def timeline(self, asked: dict[str, str]) -> dict[str, Any]:
        """Return what was alive between two times."""
        begin, end = self._times(asked)
        drawn = timeline(self._scan, begin, end)
        return {
            "moments": data.moments(drawn, self._scan.facts[0]),
            "rows": data.rows(drawn, self._order),
            "layers": data.layers(self._scan, drawn),
        }

    def alive(self, asked: dict[str, str]) -> dict[str, Any]:
        """Return the largest buffers alive at a point in time."""
        scan, first = self._scan, self._scan.facts[0]
        moment, device = first + self._number(asked, "at"), self._number(asked, "device", 64)
        found = with_kinds(scan, alive_on(scan, device, moment))
        ordered = found.sort_by([("bytes", "descending"), ("born", "ascending"), ("buffer", "ascending")])
        rows = ordered.slice(0, _BUFFERS).to_pylist()
        born = births_of(scan, rows, ("op", "shape", "dtype", "site"))
        told = []
        for life in rows:
            row = born.get((life["process"], life["buffer"]), {})
            told.append(
                {
                    "bytes": life["bytes"],
                    "born": life["born"] - first,
                    "used": used_until(scan, life) - first,
                    "ended": None if life["ended"] >= NEVER else life["ended"] - first,
                    "kind": life["kind"],
                    **{name: row.get(name) and shown(row[name], 120) for name in ("op", "shape", "dtype", "site")},
                }
            )
        return {"count": len(found), "buffers": told}

    def lives(self, asked: dict[str, str]) -> dict[str, Any]:
        """Return the lifetimes of a line's buffers between two times."""
        site = self._number(asked, "site", len(self._scan.words("site")))
        found, count = lives_of(self._scan, site, *self._times(asked), _LIVES)
        return {"count": count, "lives": places.lives_told(self._scan, found.to_pylist())}

    def _times(self, asked: dict[str, str]) -> tuple[int, int]:
        first = self._scan.facts[0]
        begin, end = first + self._number(asked, "from"), first + self._number(asked, "to")
        if begin >= end:
            raise ValueError("`from` must be before `to`")
        return begin, end

    def _number(self, asked: dict[str, str], name: str, below: int = 1 << 50) -> int:
        text = asked.get(name, "")
        if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) < below):
            raise ValueError(f"`{name}` must be a whole number, and exist")
        return int(text)
