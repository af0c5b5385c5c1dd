"""How much of what: the small results that the analyses share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenure import untrusted
from tenure.model import Site, size

UNKNOWN = "unknown"
CHANGED = "(the file was changed since this was recorded)"
_FILES = 500


@dataclass(frozen=True, slots=True)
class Amount:
    """So many buffers of this name, and their bytes."""

    name: str
    bytes: int
    count: int

    def __str__(self) -> str:
        return f"{size(self.bytes):>12} {self.count:>7,} x  {self.name}"


@dataclass(frozen=True, slots=True)
class SiteAmount:
    """What was born at one line; `op` is the operation that made most of it. Without a file, the line is not known.

    `past` are the bytes of it that were past their last use, and `text` is the line of source, where it is known.
    """

    bytes: int
    count: int
    file: str | None
    line: int | None
    function: str | None
    op: str | None = None
    kind: str | None = None
    past: int = 0
    text: str = ""

    def __str__(self) -> str:
        inside = f" in {self.function}" if self.function else ""
        place = "place unknown" if self.file is None else f"{self.file}:{self.line}{inside}"
        return f"{size(self.bytes):>12} {self.count:>7,} x  {place}" + (f"  [{self.op}]" if self.op else "")


def source(file: str | None, line: int | None) -> str:
    """Return the line of source, stripped, or that it is not known; only of Python files, for a trace may name any."""
    if file is None or line is None or not file.endswith((".py", ".pyw")) or "\0" in file:
        return ""
    return CHANGED if untrusted.is_lost(file) else untrusted.line(file, line).strip()[:120]


def apart(site: str | None) -> tuple[str | None, int | None, str | None]:
    """File, line and function of a site like `/home/me/train.py:31 in step`."""
    file, _, rest = (site or "").rpartition(":")
    line, _, function = rest.partition(" in ")
    if not file or not (line.isascii() and line.isdigit() and len(line) < 10):
        return None, None, None
    return file, int(line), function or None


def place(site: str | None) -> Site | None:
    """A site as the model has it."""
    file, line, function = apart(site)
    return None if file is None or line is None else Site(file, line, function or "")


def frames(stack: str | None) -> list[Site]:
    """A stack as sites, innermost first."""
    return [site for line in (stack or "").splitlines() if (site := place(line)) is not None]


def moment(microseconds: int) -> datetime:
    """A time of a trace as a date."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).replace(microsecond=microseconds % 1_000_000)


def by(table: Any, column: str, words: Sequence[str] | None) -> list[tuple[Any, int, int]]:
    """Name, bytes and count of the groups of a table with a column `bytes`, the largest first."""
    grouped = table.group_by(column).aggregate([("bytes", "sum"), ("bytes", "count")])
    rows = zip(
        grouped[column].to_pylist(), grouped["bytes_sum"].to_pylist(), grouped["bytes_count"].to_pylist(), strict=True
    )
    named = [(named_by(words, key), total, count) for key, total, count in rows]
    return sorted(named, key=lambda row: (-row[1], str(row[0])))


def named_by(words: Sequence[str] | None, key: Any) -> Any:
    """The word of this number; None for none."""
    if words is None:
        return key
    return words[key] if key is not None and key >= 0 else None


def amounts(rows: Iterable[tuple[Any, int, int]]) -> tuple[Amount, ...]:
    """Rows of `by` as amounts."""
    return tuple(Amount(UNKNOWN if name is None else str(name), total, count) for name, total, count in rows)


def files_of(sites: Iterable[str]) -> list[str]:
    """Return the source files of these sites; of very many, some."""
    return sorted({file for site in sites if (file := apart(site)[0])})[:_FILES]
