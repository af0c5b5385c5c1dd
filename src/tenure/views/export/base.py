"""Shared by the export formats: targets, stack frames, and names for users."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure.trace.streams import Process

if TYPE_CHECKING:
    from tenure.traces import Trace

TABLES = ("buffers", "events", "sites", "steps", "live")
_FRAME = re.compile(r"(?P<file>.*):(?P<line>[0-9]{1,9})(?: in (?P<function>.*))?", re.DOTALL)

Tell = Callable[[int], None]


def quiet(rows: int) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True, slots=True)
class Job:
    """A trace, the file to write, the table that formats of tables write, and whom to tell of rows that are done."""

    trace: Trace
    path: Path
    table: str
    tell: Tell

    def rows(self, query: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a query; only a few are in memory at a time."""
        with self.trace.database() as db:
            for batch in db.stream(query):
                yield from batch.to_pylist()
                self.tell(batch.num_rows)


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of a stack; without a file where it is not like one."""

    function: str
    file: str
    line: int


UNKNOWN = Frame("place unknown", "", 0)


@lru_cache(1 << 14)
def frames(stack: str | None) -> tuple[Frame, ...]:
    """Return the frames of a stack, innermost first; never empty."""
    return tuple(_frame(line) for line in stack.split("\n")) if stack else (UNKNOWN,)


def _frame(text: str) -> Frame:
    found = _FRAME.fullmatch(text)
    if found is None:
        return Frame(text, "", 0)
    return Frame(found["function"] or found["file"].rpartition("/")[2], found["file"], int(found["line"]))


def process_name(process: Process, trace: Trace) -> str:
    """Return the name of a process for users."""
    words = [Path(word).name for word in process.command[:1]] or [trace.path.name]
    rank = "" if process.rank is None else f"rank {process.rank}: "
    return rank + words[0]


def quoted(text: str) -> str:
    """Text in SQL."""
    return "'" + text.replace("'", "''") + "'"
