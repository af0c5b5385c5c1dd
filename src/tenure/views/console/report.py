"""A run on one page of text, to be read from top to bottom: the verdict, the peak, what leaks, what could end earlier."""

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
from tenure.views.console import autopsy
from tenure.views.formats import full
from tenure.views.formats.text import is_coloured, short

_HEIGHT = 6
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ADVICE = "5"  # what codes of advice begin with, after TN
_RANKS = 4
_WIDTH = 98
# What no finding means, by how much of the run was checked.
NO_LEAK = {"all": "no leak", "part": "no leak in what was checked", "none": "leaks not judged"}
_UNEVEN = 1.2


def write(summary: Summary, out: TextIO, findings: Sequence[Finding] = (), ends: Sequence[Autopsy] = ()) -> None:
    """The report as text: in colour on a terminal that wants it, without blocks where they cannot be written."""
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
    """The same as JSON."""
    told: dict[str, Any] = dataclasses.asdict(summary)
    for site, found in zip(
        (told["peak"] or {}).get("sites", ()), summary.peak.sites if summary.peak else (), strict=True
    ):
        site["text"] = found.text
    told["findings"] = [finding.as_dict() for finding in findings]
    return json.dumps(told, indent=1, default=str)


def is_fault(finding: Finding) -> bool:
    """Whether a finding is a fault, and not advice."""
    return not finding.code.startswith(f"TN{_ADVICE}")


def render(
    summary: Summary,
    findings: Sequence[Finding] = (),
    ends: Sequence[Autopsy] = (),
    *,
    bold: bool = False,
    blocks: bool = True,
) -> str:
    """The report as text; `ends` are the moments at which memory ran out."""
    faults = [finding for finding in findings if is_fault(finding)]
    late = [finding for finding in findings if finding.code == "TN501"]
    parts = [(_title(summary), _facts(summary)), (_verdict(summary, faults, late, ends), _wrapped(summary.limits))]
    parts += [("Out of memory", autopsy.render(one).splitlines()) for one in ends]
    if summary.peak is not None:
        parts.append((_peak_title(summary.peak), _peak(summary, blocks=blocks)))
    parts = [(_clean(title), list(map(_clean, lines))) for title, lines in parts]
    # Findings are clean already, and may have colours of their own.
    if faults:
        parts.append(("Faults", full.render(faults, colour=bold).splitlines()))
    if late:
        parts.append(("Held past its last use", full.render(late, colour=bold).splitlines()))
    refused = [finding for finding in findings if finding.code == "TN503"]
    if refused:
        parts.append(("Not reused though it was donated", full.render(refused, colour=bold).splitlines()))
    if summary.other_notes:
        parts.append(("Notes", [f"  {_clean(note)}" for note in summary.other_notes]))
    on, off = ("\x1b[1m", "\x1b[0m") if bold else ("", "")
    return "\n".join("\n".join([on + title + off, *lines, ""]) for title, lines in parts)


def _wrapped(lines: Sequence[str]) -> list[str]:
    """Lines to be read below a verdict."""
    broken = (textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ") for line in lines)
    return [part for parts in broken for part in parts]


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


def _verdict(summary: Summary, faults: Sequence[Finding], late: Sequence[Finding], ends: Sequence[Autopsy]) -> str:
    """What it comes to, in one line."""
    if summary.peak is None:
        return "No buffer was born while this was recorded."
    leaks = [finding for finding in faults if finding.code.startswith("TN3")]
    others = len(faults) - len(leaks)
    told = ["memory ran out"] if ends else []
    if leaks:
        told.append(f"{_plural(len(leaks), 'leak')}: {', '.join(sorted({finding.code for finding in leaks}))}")
    if others:
        told.append(f"{_plural(others, 'fault')}: {', '.join(sorted({f.code for f in faults if f not in leaks}))}")
    if late:
        saved = max(int(finding.evidence.get("saved", 0)) for finding in late)
        told.append(f"the peak of {size(summary.peak.bytes)} can be {size(saved)} lower")
    if not told:
        return f"Verdict: {NO_LEAK[summary.leaks_judged]}; the peak is {size(summary.peak.bytes)} on {summary.peak.device}."
    return f"Verdict: {'; '.join(told)}."


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _peak_title(peak: Peak) -> str:
    step = "" if peak.step is None else f", in step {peak.step}"
    past = f"; {size(peak.past)} ({peak.share_past:.0%}) of it past its last use" if peak.past else ""
    return f"Peak: {size(peak.bytes)} on {peak.device} at {peak.seconds:.2f} s{step}{past}"


def _peak(summary: Summary, *, blocks: bool) -> list[str]:
    assert summary.peak is not None
    peak = summary.peak
    lines = [*_chart(summary, blocks=blocks), "  born at", *_sites(peak), "  of kind", *map(_amount, peak.kinds)]
    if len(peak.scopes) > 1:
        lines += ["  in scope", *map(_amount, peak.scopes[:_RANKS])]
    if len(peak.devices) > 1:
        told = ", ".join(f"{size(one.bytes)} on {one.name}" for one in peak.devices)
        lines.append(f"  peak of each device: {told}")
    return lines + _ranks(peak)


def _ranks(peak: Peak) -> list[str]:
    """How even the ranks are."""
    if len(peak.ranks) < 2:
        return []
    low, high = peak.ranks[-1], peak.ranks[0]
    lines = [f"  peak of each process: {size(low.bytes)} to {size(high.bytes)}"]
    uneven = [one for one in peak.ranks if one.times >= _UNEVEN]
    return lines + [f"  {one.name} holds {one.times:.1f} x the others: {size(one.bytes)}" for one in uneven[:_RANKS]]


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


def _sites(peak: Peak) -> list[str]:
    lines = []
    for site in peak.sites:
        op = f"  [{site.op}]" if site.op else ""
        past = f"  ({size(site.past)} past its last use)" if site.past * 100 >= peak.bytes else ""
        lines.append(f"{size(site.bytes):>12} {site.count:>7,} x  {_place(site)}{op}{past}")
        if site.text:
            lines.append(f"{'':>25}{site.text}")
    rest = peak.bytes - sum(site.bytes for site in peak.sites)
    return [*lines, f"{size(rest):>12}            elsewhere"] if rest > 0 else lines


def _place(site: SiteAmount) -> str:
    if site.file is None:
        return "place unknown"
    inside = f" in {site.function}" if site.function else ""
    return f"{short(site.file)}:{site.line}{inside}"


def _amount(amount: Amount) -> str:
    return f"{size(amount.bytes):>12} {amount.count:>7,} x  {amount.name}"
