"""Texts of a trace for the page: short, printable, and with source where it can be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tenure import untrusted
from tenure.analysis.amounts import CHANGED
from tenure.model import Holder, Link, Site

_LONGEST = 300
_AROUND = 3  # lines of source before and after
_FRAMES = 24
# What moves, hides or reverses what stands beside it.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def shown(text: Any, longest: int = _LONGEST) -> str:
    """Return printable text: other characters become a box, and long text is cut."""
    told = str(text)
    cut = told if len(told) <= longest else f"{told[:longest]}… ({len(told):,} characters)"
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", cut)


def plain(value: Any) -> Any:
    """Plain data with all its texts made fit."""
    if isinstance(value, str):
        return shown(value, 4 * _LONGEST)
    if isinstance(value, dict):
        return {shown(key): plain(one) for key, one in list(value.items())[:100]}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value[:200]]
    return value if isinstance(value, int | float | bool) or value is None else shown(value)


def excerpt(file: str, line: int) -> list[list[Any]]:
    """Return the lines around a place with their numbers, only from Python files: a trace may name any file."""
    if not file.endswith((".py", ".pyw")) or "\x00" in file:
        return []
    if untrusted.is_lost(file):
        return [[line, CHANGED]]
    lines = untrusted.lines(file)
    if not 0 < line <= len(lines):
        return []
    first = max(1, line - _AROUND)
    return [[at, shown(lines[at - 1].rstrip("\n"), 160)] for at in range(first, min(len(lines), line + _AROUND) + 1)]


def frame(site: Site) -> dict[str, Any]:
    """Return a place in the user's code, with its source line."""
    return {
        "file": shown(site.file),
        "line": site.line,
        "function": shown(site.function, 120),
        "source": excerpt(site.file, site.line),
    }


def frames(stack: Sequence[Site]) -> list[dict[str, Any]]:
    """Return a stack, innermost first."""
    return [frame(site) for site in stack[:_FRAMES]]


def _link(link: Link) -> dict[str, Any]:
    told: dict[str, Any] = {"text": shown(link.text), "kind": shown(link.kind, 40)}
    if link.site is not None:
        told |= {
            "site": shown(link.site.short),
            "line": link.site.line,
            "source": excerpt(link.site.file, link.site.line),
        }
    return told


def holder(found: Holder, suspect: int | None, label: str) -> dict[str, Any]:
    """Return a holder's path, and which link to remove."""
    links = [_link(link) for link in found.links[:64]]
    return {"kind": shown(found.kind, 40), "label": label, "links": links, "suspect": suspect}
