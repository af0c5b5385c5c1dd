"""Findings in a notebook: the headline, the source lines, the reason, the fix, and the reference path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenure.findings import Finding, Place
from tenure.views.notebook.page import Named, code, page, prose, shortened, told

_MOST = 50  # shown of many


def findings(found: Sequence[Finding], named: Named = shortened) -> str:
    """Return all findings as HTML, in their order."""
    if not found:
        return page("nothing found")
    rest = f'<div class="dim">and {len(found) - _MOST:,} more</div>' if len(found) > _MOST else ""
    return page(*(box(one, named) for one in found[:_MOST]), rest)


def box(finding: Finding, named: Named) -> str:
    """Return one finding as part of a page."""
    return f'<div class="box">{"".join(_parts(finding, named))}</div>'


def _parts(finding: Finding, named: Named) -> Iterator[str]:
    likely = "" if finding.certain else ' <span class="dim">(likely)</span>'
    kind = finding.severity if finding.severity in ("error", "warning", "advice") else "error"
    yield f'<div><span class="{kind}">{told(finding.code)}</span> <b>{prose(finding.message)}</b>{likely}</div>'
    rows = "".join(_row(place, named) for place in finding.places)
    if rows:
        yield f"<table>{rows}</table>"
    if finding.reason:
        yield f"<div>{prose(finding.reason)}</div>"
    if finding.fix is not None:
        yield f"<div><b>Fix:</b> {prose(finding.fix.message)}</div>"
    path = finding.evidence.get("path")
    if isinstance(path, list | tuple) and path:
        yield f"<div><b>Retained by</b>{tree(path, finding.evidence.get('suspect'))}</div>"


def _row(place: Place, named: Named) -> str:
    where = f"{told(named(place.file))}:{int(place.line)}"
    return f'<tr><td class="dim">{told(place.shown)}</td><td>{where}</td><td>{code(place.text)}</td></tr>'


def tree(links: Sequence[object], suspect: object = None) -> str:
    """Return a reference path as nested lists: each link is below the one that refers to it."""
    if not links:
        return ""
    mark = ' <span class="held">← keeps it alive</span>' if suspect == 0 else ""
    below = None if not isinstance(suspect, int) else suspect - 1
    return f"<ul><li>{code(links[0])}{mark}{tree(links[1:60], below)}</li></ul>"
