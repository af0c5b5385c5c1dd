"""Findings as text: the headline, the source lines involved, the reason, and what to write instead."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from tenure import untrusted
from tenure.findings import Edit, Finding, Place
from tenure.views.formats.text import changed, clean, short

_WIDTH = 100
_LONGEST = 160  # of a line of source
_CUT = 100  # from this length on, the text of a place may be the beginning of its line


def render(findings: Sequence[Finding], *, colour: bool = False, width: int = _WIDTH) -> str:
    """Return all findings, separated by blank lines. Sentences are broken at `width`, and at 100 columns at most."""
    width = min(width, _WIDTH)
    return "\n".join("\n".join(_lines(finding, width, colour=colour)) + "\n" for finding in findings)


def _lines(finding: Finding, width: int, *, colour: bool) -> Iterator[str]:
    bold, red, blue, off = ("\x1b[1m", "\x1b[1;31m", "\x1b[1;34m", "\x1b[0m") if colour else ("", "", "", "")
    yield f"{red}{finding.severity}[{finding.code}]{off}{bold}: {clean(finding.headline)}{off}"
    wide = max((len(str(place.line)) for place in finding.places), default=1)
    shown: set[tuple[str, int]] = set()
    file = None
    places = _merged(finding)
    for place in _in_reading_order(places):
        if (place.file, place.line) in shown:
            continue
        shown.add((place.file, place.line))
        arrow = "-->" if file is None else ":::"
        if place.file != file:
            line = places[0].line if file is None else place.line
            yield f"{' ' * wide}{blue}{arrow}{off} {clean(short(place.file))}:{line}"
            file = place.file
        yield from _excerpt(place, finding, wide, blue, off)
    for label, text in (("why", finding.reason), ("fix", finding.fix.message if finding.fix else "")):
        if text:
            yield from _paragraph(label, text, wide, width, bold, off)
    if finding.fix and finding.fix.edits:
        yield from (f"{' ' * wide}   {line}" for line in _changes(finding.fix.edits))
    path = finding.evidence.get("path")
    if path:
        yield from _path(path, finding.evidence.get("suspect"), wide, bold, off)
    yield f"{' ' * wide} {bold}= see{off}: tenure explain {finding.code}"


def _merged(finding: Finding) -> tuple[Place, ...]:
    main = finding.main
    if main is None or any((p.file, p.line) == (main.file, main.line) for p in finding.places):
        return finding.places
    return (main, *finding.places)


def _in_reading_order(places: Sequence[Place]) -> list[Place]:
    """Return the places in the order in which they are read.

    Places that begin with a use or a holder are reported there; what leads to it comes before: the creation, then the
    other lines from top to bottom. All others are in the order of time already.
    """
    if len({place.file for place in places}) > 1 or not places or places[0].role not in ("use", "holder"):
        return list(places)
    born = {place.line for place in places if place.role == "birth"}
    return sorted(places, key=lambda place: (place.line not in born, place.line, place.role != "birth"))


def _excerpt(place: Place, finding: Finding, wide: int, blue: str, off: str) -> Iterator[str]:
    """Yield a source line, with marks and a label below it."""
    here = [p for p in finding.places if (p.file, p.line) == (place.file, place.line)]
    labels = [p.shown for p in sorted(here, key=lambda p: p.role != "birth")]
    label = clean(" and ".join(dict.fromkeys(labels)) or "here")
    source = _source(place)
    if not source:
        yield f"{blue}{place.line:>{wide}} |{off} ({label})"
        return
    source = clean(source.expandtabs(4))
    stripped = source.lstrip()
    shown = stripped[:_LONGEST]
    yield f"{blue}{place.line:>{wide}} |{off}     {shown}"
    marks = "^" * min(len(shown), _WIDTH)
    yield f"{' ' * wide} {blue}|{off}     {blue}{marks} {label}{off}"


def _source(place: Place) -> str:
    """Return the line of the finding, with the file's own spaces where the file still contains the same line."""
    now = (untrusted.line(place.file, place.line) if place.file.endswith(".py") else "").rstrip()
    line, text = (" ".join(one.split()) for one in (now, place.text))
    is_same = line == text or (len(text) >= _CUT and line.startswith(text))
    return now if is_same or not text else place.text


def _paragraph(label: str, text: str, wide: int, width: int, bold: str, off: str) -> Iterator[str]:
    first = f"{' ' * wide} = {label}: "
    lines = textwrap.wrap(clean(text), width - len(first)) or [""]
    yield f"{' ' * wide} {bold}= {label}{off}: {lines[0]}"
    yield from (" " * len(first) + line for line in lines[1:])


def _changes(edits: Sequence[Edit]) -> Iterator[str]:
    """Yield the lines before and after the fix; those that it keeps are shown once, without a sign."""
    for edit in edits:
        old = [untrusted.line(edit.file, at).rstrip("\n") for at in range(edit.start[0], edit.end[0] + 1)]
        if not old or not old[0]:
            continue
        new = old[0][: edit.start[1] - 1] + edit.text + old[-1][edit.end[1] - 1 :]
        yield from map(clean, changed(old, new.splitlines()))


def _path(path: Sequence[str], suspect: object, wide: int, bold: str, off: str) -> Iterator[str]:
    """Yield the reference path from its root, one link per line, with a mark at the reference that keeps the rest alive."""
    yield f"{' ' * wide} {bold}= retained by{off}:"
    for at, link in enumerate(path):
        mark = "   <-- keeps it alive" if at == suspect else ""
        yield f"{' ' * wide}      {'  ' * at}{'→ ' if at else ''}{clean(str(link))}{mark}"
