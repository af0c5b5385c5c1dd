"""The rows of a few buffers with all that they say, read from the batches they are in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from tenure.analysis.scan import NEVER, Scan, Source
from tenure.trace.events import NUMBERS

_SOON = 4  # batches from the birth's on


def rows_of(
    scan: Scan, lives: Sequence[Mapping[str, Any]], columns: Sequence[str], *, end: bool = False
) -> dict[tuple[int, int], dict[str, Any]]:
    """By process and buffer, what these columns say in the row of its birth, or in the last one about it."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for source in scan.sources:
        wanted: dict[int, set[int]] = {}
        for life in lives:
            if life["process"] == source.at:
                wanted.setdefault(life["last_batch" if end else "batch"], set()).add(life["buffer"])
        ended = {life["buffer"] for life in lives if life["process"] == source.at and life["ended"] < NEVER}
        read = ("event", "buffer", *columns)
        for chunk in source.numbers.chunks(read, sorted(wanted)):
            for number, batch in chunk:
                for row in _rows(source, number, batch, read, wanted[number]):
                    last = row["event"] == "end" or (row["buffer"] not in ended and row["event"] == "use")
                    if last if end else row["event"] == "birth":
                        found[source.at, row["buffer"]] = row
    return found


def births_of(
    scan: Scan, lives: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> dict[tuple[int, int], dict[str, Any]]:
    """As `rows_of` says of births, with shapes and dtypes that came later.

    What an operation makes has a shape when the next one takes it. If the first takes long, the birth is written by
    then, and the shape comes with the buffer's next row: mostly of the next batch, or the last about it.
    """
    found = rows_of(scan, lives, columns)
    late = [life for life in lives if not found.get((life["process"], life["buffer"]), {}).get("shape")]
    for source in scan.sources:
        wanted: dict[int, set[int]] = {}
        for life in late:
            if life["process"] == source.at:
                first, last = life["batch"], life["last_batch"]
                for batch in {*range(first, min(first + _SOON, last + 1)), last}:
                    wanted.setdefault(batch, set()).add(life["buffer"])
        read = ("buffer", "shape", "dtype")
        for chunk in source.numbers.chunks(read, sorted(wanted)):
            for number, batch in chunk:
                for row in _rows(source, number, batch, read, wanted[number]):
                    if row["shape"]:
                        found.setdefault((source.at, row["buffer"]), {}).update(shape=row["shape"], dtype=row["dtype"])
    return found


def _rows(source: Source, number: int, batch: Any, columns: Sequence[str], buffers: set[int]) -> list[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow import compute

    mask = compute.is_in(batch.column("buffer"), value_set=pa.array(sorted(buffers), pa.uint32()))
    rows: list[dict[str, Any]] = batch.filter(mask).to_pylist()
    for column in columns:
        if column not in NUMBERS:
            words = source.numbers.words(column)
            for row in rows:
                row[column] = word(words, number, row.get(column))
    return rows


def word(words: Sequence[tuple[int, Any]], batch: int, number: int | None) -> str | None:
    """The word that a number stands for in a batch."""
    if number is None or not words:
        return None
    texts = words[bisect_right(words, batch, key=lambda one: one[0]) - 1][1]
    return str(texts[number].as_py()) if 0 <= number < len(texts) else None
