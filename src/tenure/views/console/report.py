"""A run on one page of text: how much was alive when, and what made the peak."""

from __future__ import annotations

import dataclasses
import json
import linecache
import os
from pathlib import Path
from typing import Any, TextIO

from tenure.model import size
from tenure.analysis.summary import Amount, Peak, SiteAmount, Summary

_HEIGHT = 6
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def write(summary: Summary, out: TextIO) -> None:
    """The report as text: in colour on a terminal that wants it, without blocks where they cannot be written."""
    bold = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = render(summary, bold=bold, blocks=_can_write(out, _EIGHTHS))
    out.write(text if _can_write(out, text) else text.encode("ascii", "backslashreplace").decode())


def _can_write(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def as_json(summary: Summary) -> str:
    """The same as JSON."""
    told: dict[str, Any] = dataclasses.asdict(summary)
    for site in (told["peak"] or {}).get("sites", ()):
        site["text"] = _source(site["file"], site["line"])
    return json.dumps(told, indent=1, default=str)


def render(summary: Summary, *, bold: bool = False, blocks: bool = True) -> str:
    """The report as text."""
    parts = [(_title(summary), _facts(summary))]
    if summary.peak is None:
        parts.append(("No buffer was born while this was recorded.", []))
    else:
        parts.append(("Bytes alive", _chart(summary, blocks=blocks)))
        parts.append((_peak_title(summary.peak), _sites(summary.peak)))
        parts.append(("The same by kind", [_amount(kind) for kind in summary.peak.kinds]))
        if len(summary.peak.devices) > 1:
            parts.append(("The same by device", [_amount(device) for device in summary.peak.devices]))
    if summary.notes:
        parts.append(("Notes", [f"  {note}" for note in summary.notes]))
    on, off = ("\x1b[1m", "\x1b[0m") if bold else ("", "")
    return "\n".join("\n".join([on + _clean(title) + off, *map(_clean, lines), ""]) for title, lines in parts)


def _clean(line: str) -> str:
    """A trace may come from anywhere: what it says must not reach the terminal as commands."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _title(summary: Summary) -> str:
    command = " ".join(summary.command)
    return f"{summary.path}: {command}" if command else summary.path


def _facts(summary: Summary) -> list[str]:
    names = ", ".join(amount.name for amount in summary.frameworks) or "no framework"
    count = len(summary.processes)
    ranks = sorted({process.rank for process in summary.processes if process.rank is not None})
    told = f", ranks {ranks[0]}-{ranks[-1]}" if len(ranks) > 1 else ""
    run = (_plural(count, "process", "processes") + told, names, f"{summary.seconds:.2f} s")
    counts = (_plural(summary.steps, "step"), _plural(summary.events, "event"))
    born = f"{_plural(summary.buffers, 'buffer')} of {size(summary.bytes)} in all"
    left = f"at the end {summary.left.count:,} of {size(summary.left.bytes)} were alive"
    return [f"  {'; '.join(run)}; {', '.join(counts)}", f"  {born}; {left}"]


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _chart(summary: Summary, *, blocks: bool) -> list[str]:
    """A column for each part of the run, filled in eighths of a line."""
    top = max(summary.curve) or 1
    labels = {0: size(top), _HEIGHT - 1: "0"}
    lines = []
    for row in range(_HEIGHT):
        below = (_HEIGHT - 1 - row) * 8
        cells = [min(8, max(0, -(-value * _HEIGHT * 8 // top) - below)) for value in summary.curve]
        drawn = "".join(_EIGHTHS[cell] if blocks else " #"[cell >= 4] for cell in cells)
        lines.append(f"{labels.get(row, ''):>12} |{drawn.rstrip()}")
    end = f"{summary.seconds:.2f} s"
    lines.append(f"{'':>12} 0 s{end:>{len(summary.curve) - 3}}")
    return lines


def _peak_title(peak: Peak) -> str:
    step = "" if peak.step is None else f", in step {peak.step}"
    return f"Peak: {size(peak.bytes)} at {peak.seconds:.2f} s{step}. Where it was born:"


def _sites(peak: Peak) -> list[str]:
    lines = []
    for site in peak.sites:
        op = f"  [{site.op}]" if site.op else ""
        lines.append(f"{size(site.bytes):>12} {site.count:>7,} x  {_place(site)}{op}")
        text = _source(site.file, site.line)
        if text:
            lines.append(f"{'':>25}{text}")
    rest = peak.bytes - sum(site.bytes for site in peak.sites)
    return [*lines, f"{size(rest):>12}            elsewhere"] if rest > 0 else lines


def _place(site: SiteAmount) -> str:
    if site.file is None:
        return "place unknown"
    inside = f" in {site.function}" if site.function else ""
    return f"{_short(site.file)}:{site.line}{inside}"


def _short(file: str) -> str:
    """The file as seen from here, if it is below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def _source(file: str | None, line: int | None) -> str:
    """The line of source, where it can still be read; only from files of Python, for the trace may name any."""
    if file is None or line is None or not file.endswith((".py", ".pyw")):
        return ""
    return linecache.getline(file, line).strip()[:120]


def _amount(amount: Amount) -> str:
    return f"{size(amount.bytes):>12} {amount.count:>7,} x  {amount.name}"
