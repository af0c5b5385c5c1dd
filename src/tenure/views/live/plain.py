"""One look at a run as plain text: for `--once`, files and pipes."""

from __future__ import annotations

from collections.abc import Iterator

from tenure.model import size
from tenure.views.live import chart
from tenure.views.live.picture import Picture, Row

_ROWS = 15
_HEIGHT = 6
_PLACE = 40


def render(picture: Picture, *, blocks: bool = True) -> str:
    """Return the text, without control codes."""
    return "\n".join(line.rstrip() for line in _lines(picture, blocks=blocks)) + "\n"


def _lines(picture: Picture, *, blocks: bool) -> Iterator[str]:
    yield picture.title
    yield "; ".join(part for part in (picture.subject, picture.status, chart.facts(picture.step, picture.rate)) if part)
    yield from (f"note: {text}" for text in picture.troubles)
    if picture.device:
        yield headline(picture)
        if picture.others:
            yield f"  also: {picture.others}"
        yield from chart.draw(picture.curve, picture.seconds, _HEIGHT, blocks=blocks)
    if len(picture.processes) > 1:
        yield "processes"
        for one in picture.processes:
            step = "" if one.step is None else f"  step {one.step:,}"
            yield f"  {one.name:<12} {one.state:<8} {size(one.bytes):>10}{step}"
    if picture.rows:
        several = len({row.device for row in picture.rows}) > 1
        yield f"{'bytes now':>10}  {'per step':>10} {'count':>8}  allocated at"
        yield from (_row(row, several) for row in picture.rows[:_ROWS])
        rest = picture.more + max(0, len(picture.rows) - _ROWS)
        if rest:
            yield f"{'':>32}{rest:,} more {'line' if rest == 1 else 'lines'}"
    for note in picture.notes:
        yield ""
        yield note.title
        yield f"  {note.message}"
        if note.path:
            yield f"  retained by {' → '.join(note.path)}"


def headline(picture: Picture) -> str:
    """Return the bytes in one line."""
    ago = "" if picture.peak_ago is None or picture.peak_ago < 1 else f" {chart.span(picture.peak_ago)} ago"
    told = [f"{picture.device}: {size(picture.bytes)} now", f"peak {size(picture.peak)}{ago}"]
    if picture.growth is not None:
        told.append(f"{chart.change(picture.growth)} per step")
    return ", ".join(told)


def _row(row: Row, several: bool) -> str:
    mark = "^" if row.rises else " "
    device = f"{row.device:<8} " if several else ""
    return f"{size(row.bytes):>10} {mark}{chart.change(row.growth):>10} {row.count:>8,}  {device}{row.place:<{_PLACE}}  {row.source}"
