"""Findings as people read them: the message, the lines of source that matter, the reason, and what to write instead."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from tenure import untrusted
from tenure.findings import Edit, Finding, Place
from tenure.views.formats.text import clean, short

_ROLES = {
    "birth": "made here",
    "use": "used here",
    "end": "ended here",
    "escape": "gets out here",
    "holder": "held here",
}
_WIDTH = 100
_LONGEST = 160  # of a line of source
_SAME = 40  # letters by which a line is known again


def render(findings: Sequence[Finding], *, colour: bool = False) -> str:
    """All of them, a blank line between two."""
    return "\n".join("\n".join(_lines(finding, colour=colour)) + "\n" for finding in findings)


def _lines(finding: Finding, *, colour: bool) -> Iterator[str]:
    bold, red, blue, off = ("\x1b[1m", "\x1b[1;31m", "\x1b[1;34m", "\x1b[0m") if colour else ("", "", "", "")
    word = {"error": "error", "warning": "warning", "advice": "advice"}[finding.severity]
    likely = "" if finding.certain else " (likely)"
    yield f"{red}{word}[{finding.code}]{off}{bold}: {clean(finding.message)}{likely}{off}"
    wide = max((len(str(place.line)) for place in finding.places), default=1)
    told: set[tuple[str, int]] = set()
    file = None
    for place in _merged(finding):
        if (place.file, place.line) in told:
            continue
        told.add((place.file, place.line))
        arrow = "-->" if file is None else ":::"
        if place.file != file:
            yield f"{' ' * wide}{blue}{arrow}{off} {clean(short(place.file))}:{place.line}"
            file = place.file
        yield from _excerpt(place, finding, wide, blue, off)
    for label, text in (("why", finding.reason), ("fix", finding.fix.message if finding.fix else "")):
        if text:
            yield from _paragraph(label, text, wide, bold, off)
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


def _excerpt(place: Place, finding: Finding, wide: int, blue: str, off: str) -> Iterator[str]:
    """A line of source with what happens there below it."""
    roles = [p.role for p in finding.places if (p.file, p.line) == (place.file, place.line)]
    told = " and ".join(dict.fromkeys(_ROLES[role] for role in roles)) or "here"
    source = _source(place)
    if not source:
        yield f"{blue}{place.line:>{wide}} |{off} ({told})"
        return
    source = clean(source.expandtabs(4))
    stripped = source.lstrip()
    shown = stripped[:_LONGEST]
    yield f"{blue}{place.line:>{wide}} |{off}     {shown}"
    marks = "^" * min(len(shown), _WIDTH)
    yield f"{' ' * wide} {blue}|{off}     {blue}{marks} {told}{off}"


def _source(place: Place) -> str:
    """The line as the finding has it; as the file has it now, with all its spaces, where that is still the same."""
    now = (untrusted.line(place.file, place.line) if place.file.endswith(".py") else "").rstrip()
    is_same = " ".join(now.split())[:_SAME] == " ".join(place.text.split())[:_SAME]
    return now if is_same or not place.text else place.text


def _paragraph(label: str, text: str, wide: int, bold: str, off: str) -> Iterator[str]:
    first = f"{' ' * wide} = {label}: "
    lines = textwrap.wrap(clean(text), _WIDTH - len(first)) or [""]
    yield f"{' ' * wide} {bold}= {label}{off}: {lines[0]}"
    yield from (" " * len(first) + line for line in lines[1:])


def _changes(edits: Sequence[Edit]) -> Iterator[str]:
    """The lines as they are and as they would be."""
    for edit in edits:
        old = [untrusted.line(edit.file, at).rstrip("\n") for at in range(edit.start[0], edit.end[0] + 1)]
        if not old or not old[0]:
            continue
        new = old[0][: edit.start[1] - 1] + edit.text + old[-1][edit.end[1] - 1 :]
        for line in old:
            yield f"- {clean(line.strip())}"
        for line in new.splitlines():
            yield f"+ {clean(line.strip())}"


def _path(path: Sequence[str], suspect: object, wide: int, bold: str, off: str) -> Iterator[str]:
    """The holder path, root first, one link a line, the suspect one marked."""
    yield f"{' ' * wide} {bold}= held by{off}:"
    for at, link in enumerate(path):
        mark = "   <-- this reference keeps it" if at == suspect else ""
        yield f"{' ' * wide}      {'  ' * at}{'→ ' if at else ''}{clean(str(link))}{mark}"
