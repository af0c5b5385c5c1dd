"""A run on one page of text, to be read from top to bottom: the summary, the peak, the findings, the advice."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

from tenure.analysis.summary import Amount, Peak, SiteAmount, Summary
from tenure.findings import Finding
from tenure.model import size
from tenure.trace.autopsies import Autopsy
from tenure.views.console import autopsy, outcome
from tenure.views.formats import full
from tenure.views.formats.text import is_coloured, short

_HEIGHT = 6
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_RANKS = 4
_WIDTH = 98
_UNEVEN = 1.2


def write(summary: Summary, out: TextIO, findings: Sequence[Finding] = (), ends: Sequence[Autopsy] = ()) -> None:
    """Write the report as text: coloured on a terminal, and without block characters if they cannot be encoded."""
    bold = is_coloured(out)
    text = render(summary, findings, ends, bold=bold, blocks=_can_write(out, _EIGHTHS))
    out.write(text if _can_write(out, text) else text.encode("ascii", "backslashreplace").decode())


def _can_write(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def as_json(summary: Summary, findings: Sequence[Finding] = ()) -> str:
    """Return the report as JSON."""
    told: dict[str, Any] = dataclasses.asdict(summary)
    for site, found in zip(
        (told["peak"] or {}).get("sites", ()), summary.peak.sites if summary.peak else (), strict=True
    ):
        site["text"] = found.text
    told["findings"] = [finding.as_dict() for finding in findings]
    return json.dumps(told, indent=1, default=str)


def render(
    summary: Summary,
    findings: Sequence[Finding] = (),
    ends: Sequence[Autopsy] = (),
    *,
    bold: bool = False,
    blocks: bool = True,
) -> str:
    """Return the report as text; `ends` are the times at which memory ran out."""
    faults = [finding for finding in findings if outcome.is_fault(finding)]
    late = [finding for finding in findings if finding.code == "TN501"]
    parts = [
        (_title(summary), _facts(summary)),
        (outcome.sentence(summary, findings, ends), _wrapped(outcome.other(summary.limits, findings))),
    ]
    parts += [("Out of memory", autopsy.render(one).splitlines()) for one in ends]
    if summary.peak is not None:
        parts.append((_peak_title(summary.peak), _peak(summary, blocks=blocks)))
    parts = [(_clean(title), list(map(_clean, lines))) for title, lines in parts]
    # Findings are clean already, and may have colours of their own.
    if faults:
        parts.append(("Findings", full.render(faults, colour=bold).splitlines()))
    if late:
        parts.append(("Still allocated after its last use", full.render(late, colour=bold).splitlines()))
    unused = [finding for finding in findings if finding.code == "TN316" and not outcome.is_fault(finding)]
    if unused:
        parts.append(("Graphs that no backward pass uses", full.render(unused, colour=bold).splitlines()))
    refused = [finding for finding in findings if finding.code == "TN503"]
    if refused:
        parts.append(("Donated but not reused", full.render(refused, colour=bold).splitlines()))
    if summary.other_notes:
        parts.append(("Notes", [f"  {_clean(note)}" for note in summary.other_notes]))
    on, off = ("\x1b[1m", "\x1b[0m") if bold else ("", "")
    return "\n".join("\n".join([on + title + off, *lines, ""]) for title, lines in parts)


def _wrapped(lines: Sequence[str]) -> list[str]:
    """Break the lines that follow the summary."""
    broken = (textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ") for line in lines)
    return [part for parts in broken for part in parts]


def _clean(line: str) -> str:
    """Return text that is safe to print: a trace may come from anywhere."""
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
    made = f"{_plural(summary.buffers, 'buffer')} allocated ({size(summary.bytes)} in total)"
    left = f"{_plural(summary.left.count, 'buffer')} ({size(summary.left.bytes)}) alive at exit"
    return [f"  {'; '.join(run)}; {', '.join(counts)}", f"  {made}; {left}"]


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _peak_title(peak: Peak) -> str:
    step = "" if peak.step is None else f", in step {peak.step}"
    past = f"; {size(peak.past)} ({peak.share_past:.0%}) of it not used again" if peak.past else ""
    return f"Peak memory: {size(peak.bytes)} on {peak.device} at {peak.seconds:.2f} s{step}{past}"


def _peak(summary: Summary, *, blocks: bool) -> list[str]:
    assert summary.peak is not None
    peak = summary.peak
    lines = [*_chart(summary, blocks=blocks), "  allocated at", *_sites(peak), "  by kind", *map(_amount, peak.kinds)]
    if len(peak.scopes) > 1:
        lines += ["  by scope", *map(_amount, peak.scopes[:_RANKS])]
    if len(peak.devices) > 1:
        told = ", ".join(f"{size(one.bytes)} on {one.name}" for one in peak.devices)
        lines.append(f"  peak of each device: {told}")
    return lines + _ranks(peak)


def _ranks(peak: Peak) -> list[str]:
    """Return the peaks of the ranks, and which are far above the median."""
    if len(peak.ranks) < 2:
        return []
    low, high = peak.ranks[-1], peak.ranks[0]
    lines = [f"  peak of each process: {size(low.bytes)} to {size(high.bytes)}"]
    uneven = [one for one in peak.ranks if one.times >= _UNEVEN]
    return lines + [f"  {one.name} has {one.times:.1f} times the median: {size(one.bytes)}" for one in uneven[:_RANKS]]


def _chart(summary: Summary, *, blocks: bool) -> list[str]:
    """Return the chart: a column for each interval, in eighths of a line."""
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


def _sites(peak: Peak) -> list[str]:
    lines = []
    for site in peak.sites:
        op = f"  [{site.op}]" if site.op else ""
        past = f"  ({size(site.past)} not used again)" if site.past * 100 >= peak.bytes else ""
        lines.append(f"{size(site.bytes):>12} {site.count:>7,} x  {_place(site)}{op}{past}")
        if site.text:
            lines.append(f"{'':>25}{site.text}")
    rest = peak.bytes - sum(site.bytes for site in peak.sites)
    return [*lines, f"{size(rest):>12}            other lines"] if rest > 0 else lines


def _place(site: SiteAmount) -> str:
    if site.file is None:
        return "unknown line"
    inside = f" in {site.function}" if site.function else ""
    return f"{short(site.file)}:{site.line}{inside}"


def _amount(amount: Amount) -> str:
    return f"{size(amount.bytes):>12} {amount.count:>7,} x  {amount.name}"
