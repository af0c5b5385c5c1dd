"""Where the lines of a source file are in another version of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

_SIMILAR = 0.6  # from this ratio on, a replaced line counts as the same line, edited
_MOST = 2_000  # pairs of lines that are compared, of one place


def moved(before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
    """Return the new number of each line that is still there, by its old number. Indentation does not matter."""
    old, new = ([line.strip() for line in lines] for lines in (before, after))
    found: dict[int, int] = {}
    for what, first, last, to, end in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if what == "equal":
            found.update(zip(range(first + 1, last + 1), range(to + 1, end + 1), strict=True))
        elif what == "replace" and (last - first) * (end - to) <= _MOST:
            found.update((first + one + 1, to + other + 1) for one, other in _edited(old[first:last], new[to:end]))
    return found


def _edited(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The lines that were edited where they are: the most similar ones first, and none of them crosses another."""
    ratios = (
        (difflib.SequenceMatcher(None, one, other).ratio(), at, to)
        for at, one in enumerate(old)
        for to, other in enumerate(new)
    )
    taken: list[tuple[int, int]] = []
    for ratio, at, to in sorted(ratios, key=lambda pair: (-pair[0], abs(pair[1] - pair[2]))):
        if ratio >= _SIMILAR and all((at - one) * (to - other) > 0 for one, other in taken):
            taken.append((at, to))
            yield at, to
