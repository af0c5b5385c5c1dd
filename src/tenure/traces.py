"""A trace as users open it: its tables, and what the analyses make of them."""

from __future__ import annotations

from os import PathLike

from tenure.findings import Finding
from tenure.trace import reader, told


def load(path: str | PathLike[str]) -> Trace:
    """Open a trace: its folder, or the stream of one process. Raises `TraceError` for what is none, or is damaged."""
    found = reader.load(path)
    return Trace(found.path, found.meta, found.streams, found.notes)


class Trace(reader.Recorded):
    """What happened to buffers in one run. Tables are Arrow's; the columns are told in docs/trace-format.md."""

    def findings(self) -> list[Finding]:
        """The faults that were found, the gravest first."""
        return told.heard(self.path) if self.path.is_dir() else []
