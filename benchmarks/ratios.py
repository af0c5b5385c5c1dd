"""How a ratio is told."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence


def told(ratios: Sequence[float]) -> str:
    """The median, and where it would lie in 95 of 100 such runs, by drawing from these ratios again and again."""
    draws = random.Random(0)
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.3f} ({medians[50]:.3f} to {medians[-51]:.3f})"
