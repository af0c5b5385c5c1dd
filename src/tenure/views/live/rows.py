"""The table of lines: which of them, in which order, with their source."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.analysis.amounts import apart, source
from tenure.analysis.live import Line
from tenure.views.formats.text import short
from tenure.views.live.picture import Order, Row, Wish, safe

_MOST = 200


def make(lines: Sequence[Line], wish: Wish) -> tuple[tuple[Row, ...], int]:
    """Return the rows to show, and how many more there are."""
    ordered = sorted(lines, key=_KEYS[wish.order])
    sought = wish.containing.casefold()
    if not sought:
        return tuple(_row(line) for line in ordered[:_MOST]), max(0, len(ordered) - _MOST)
    # Only what is shown is looked up, unless it is searched for.
    rows = [
        row for line in ordered if sought in (row := _row(line)).place.casefold() or sought in row.source.casefold()
    ]
    return tuple(rows[:_MOST]), max(0, len(rows) - _MOST)


def _by_growth(line: Line) -> tuple[float, int, str]:
    return -(line.growth or 0.0), -line.bytes, line.site or ""


def _by_line(line: Line) -> tuple[str, int, str]:
    file, number, _ = apart(line.site)
    return file or "~", number or 0, line.device


_KEYS = {
    "bytes": lambda line: (-line.bytes, line.site or ""),
    "growth": _by_growth,
    "count": lambda line: (-line.count, -line.bytes, line.site or ""),
    "line": _by_line,
}


def _row(line: Line) -> Row:
    file, number, function = apart(line.site)
    place = "place unknown"
    if file is not None:
        named = (function or "").replace("<locals>.", "")
        inside = f" in {named}" if named and not named.startswith("<") else ""
        place = f"{short(file)}:{number}{inside}"
    elif line.site:
        place = line.site
    return Row(
        bytes=line.bytes,
        growth=line.growth,
        rises=line.rises,
        count=line.count,
        device=safe(line.device, 20),
        place=safe(place, 200),
        source=safe(source(file, number), 200),
    )


def next_order(order: Order) -> Order:
    """Return the order after this one."""
    orders: list[Order] = list(_KEYS)  # type: ignore[arg-type]
    return orders[(orders.index(order) + 1) % len(orders)]
