"""The findings of a page. They may come from an untrusted trace, so nothing in them is assumed to be valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from tenure import untrusted
from tenure.findings import Edit, Finding, Place, Severity
from tenure.views.formats.text import changed
from tenure.views.html.texts import excerpt, shown

_MOST = 200
_LINES = 40  # of an edit
_ORDER = {"birth": 0, "holder": 1, "escape": 2, "use": 3, "end": 4}


def findings(found: Iterable[Finding], sites: Sequence[tuple[str | None, int | None]]) -> list[dict[str, Any]]:
    """Return the findings, each with the chart's sites that it concerns: creation sites first."""
    return [_as_data(one, sites) for one in list(found)[:_MOST]]


def _as_data(one: Finding, sites: Sequence[tuple[str | None, int | None]]) -> dict[str, Any]:
    places = sorted(one.places, key=lambda place: _ORDER.get(place.role, 9))
    keys = [(place.file, place.line) for place in [*places, *([one.at] if one.at else [])]]
    about = list(dict.fromkeys(at for key in keys for at, site in enumerate(sites) if site == key))
    main, path, suspect = one.main, one.evidence.get("path"), one.evidence.get("suspect")
    return {
        "code": shown(one.code, 20),
        "name": shown(one.name, 80),
        "severity": one.severity if one.severity in get_args(Severity) else "warning",
        "certain": one.certain is True,
        "message": shown(one.message, 600),
        "reason": shown(one.reason, 1200),
        "file": shown(main.file) if main else None,
        "line": _line(main),
        "sites": [_place(place) for place in one.places[:12]],
        "fix": {"message": shown(one.fix.message, 600)} if one.fix else None,
        "change": list(_changes(one.fix.edits)) if one.fix else [],
        "evidence": {
            "path": [shown(link) for link in path[:64]] if isinstance(path, list | tuple) else None,
            "suspect": suspect if isinstance(suspect, int) else None,
        },
        "about": about,
    }


def _line(place: Place | None) -> int | None:
    return place.line if place and isinstance(place.line, int) else None


def _place(place: Place) -> dict[str, Any]:
    file, line = str(place.file), _line(place)
    return {
        "role": shown(place.role, 20),
        "label": shown(place.shown, 40),
        "file": shown(file),
        "line": line,
        "text": shown(place.text),
        "source": excerpt(file, line) if line is not None else [],
    }


def _changes(edits: Sequence[Edit]) -> Iterator[str]:
    """Yield the lines before and after the fix, only of Python files: a trace may name any file."""
    for edit in edits[:8]:
        first, last = edit.start[0], edit.end[0]
        if not edit.file.endswith((".py", ".pyw")) or not first <= last <= first + _LINES:
            continue
        old = [untrusted.line(edit.file, at).rstrip("\n") for at in range(first, last + 1)]
        if old[0]:
            new = old[0][: edit.start[1] - 1] + edit.text + old[-1][edit.end[1] - 1 :]
            yield from (shown(line, 162) for line in changed(old, new.splitlines()[:_LINES]))
