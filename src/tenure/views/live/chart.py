"""The bytes alive over the last minutes, as lines of text, and numbers as people read them at a glance."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.model import size

_EIGHTHS = " ▁▂▃▄▅▆▇█"
LABEL = 10  # letters before the curve


def draw(curve: Sequence[int], seconds: float, height: int, *, blocks: bool = True) -> list[str]:
    """Lines with a column for each part, from 0 to the most; the last line tells the time."""
    top = max(curve, default=0) or 1
    labels = {0: size(top), height - 1: "0"}
    lines = []
    for row in range(height):
        below = (height - 1 - row) * 8
        cells = [min(8, max(0, -(-value * height * 8 // top) - below)) for value in curve]
        drawn = "".join(_EIGHTHS[cell] if blocks else " #"[cell >= 4] for cell in cells)
        lines.append(
            f"{labels.get(row, ''):>{LABEL}} │{drawn.rstrip()}"
            if blocks
            else f"{labels.get(row, ''):>{LABEL}} |{drawn.rstrip()}"
        )
    ago = f"{span(seconds)} ago"
    lines.append(f"{'':>{LABEL}}  {ago}{'now':>{max(4, len(curve) - len(ago))}}")
    return lines


def change(growth: float | None) -> str:
    """Growth a step: `+4.0 MiB`, `0`, or nothing where it is not known."""
    if growth is None:
        return ""
    whole = round(growth)
    return f"{'+' if whole > 0 else '-'}{size(abs(whole))}" if whole else "0"


def facts(step: int | None, rate: float | None) -> str:
    """Return the progress of the training: `step 141, 12.3 per second`."""
    if step is None:
        return "no step yet"
    speed = "" if rate is None else f", {rate:,.1f} per second" if rate >= 1 else f", one in {1 / rate:,.1f} s"
    return f"step {step:,}{speed}"


def span(seconds: float) -> str:
    """Return a duration as text: 2:05, 1:00:00."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
