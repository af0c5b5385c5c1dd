"""The pieces that all notebook views are made of. Names, paths and source may come from anywhere: all are escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence

from tenure.model import Site
from tenure.views.formats.text import clean, short

Named = Callable[[str], str]  # what people call a file: a cell has a number

_LONGEST = 300  # characters of one text
# Colours of the page's own, so that light and dark stay what they are; only marks have colours.
_STYLE = """<style>
.tenure{font-size:13px;line-height:1.45;max-width:72em}
.tenure table{border-collapse:collapse;margin:.3em 0;font-size:inherit}
.tenure td,.tenure th{text-align:left;padding:.1em .8em .1em 0;vertical-align:top;background:none!important}
.tenure th{font-weight:600;border-bottom:1px solid color-mix(in srgb,currentColor 30%,transparent)}
.tenure td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.tenure code,.tenure pre{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;background:none}
.tenure pre{margin:.2em 0;white-space:pre-wrap;overflow-wrap:anywhere}
.tenure .dim{opacity:.65}
.tenure .bar{display:inline-block;height:.7em;background:#4c78a8;vertical-align:baseline;border-radius:1px}
.tenure .curve{display:flex;align-items:flex-end;height:56px;gap:1px;max-width:44em;margin:.3em 0}
.tenure .curve i{flex:1;background:#4c78a8;min-height:1px}
.tenure .error,.tenure .held{color:#c8372d;font-weight:600}
.tenure .advice,.tenure .freed{color:#2f7d4f;font-weight:600}
.tenure .warning{color:#b26b00;font-weight:600}
.tenure .box{border-left:3px solid color-mix(in srgb,currentColor 25%,transparent);padding-left:.8em;margin:.7em 0}
.tenure ul{margin:.1em 0;padding-left:1.2em;list-style:none}
</style>"""


def page(*parts: str) -> str:
    """Return one output as HTML."""
    return f'{_STYLE}<div class="tenure">{"".join(parts)}</div>'


def told(text: object, longest: int = _LONGEST) -> str:
    """Return text that is safe in a page: no tags, no control codes, limited length."""
    whole = str(text)
    cut = whole if len(whole) <= longest else whole[: longest - 1] + "…"
    return html.escape(clean(cut))


def prose(text: object) -> str:
    """Return a sentence as HTML; text between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", told(text, 2000))


def code(text: object) -> str:
    """Return a name or a line of source."""
    return f"<code>{told(text)}</code>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Cells are HTML already; `numbers` are the columns that are set to the right."""
    head = "".join(f"<th>{told(one)}</th>" for one in heads)
    body = "".join(
        "<tr>"
        + "".join(f"<td{' class=n' if at in numbers else ''}>{cell}</td>" for at, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def shortened(file: str) -> str:
    """Return a file as seen from here."""
    return short(file)


def place(site: Site | None, named: Named) -> str:
    """Return a line of the user's code, with its source."""
    if site is None:
        return '<span class="dim">unknown</span>'
    source = f" {code(site.text)}" if site.text else ""
    return f"{told(named(site.file))}:{site.line}{source}"
