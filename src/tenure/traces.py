"""A trace as users open it: its tables, and what the analyses make of them."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

from tenure.findings import Finding
from tenure.trace import reader, told

if TYPE_CHECKING:
    from tenure.analysis.leaks import Leak
    from tenure.analysis.peak import Peak
    from tenure.analysis.scan import Scan


def load(path: str | PathLike[str]) -> Trace:
    """Open a trace: its folder, or the stream of one process. Raises `TraceError` for what is none, or is damaged."""
    found = reader.load(path)
    return Trace(found.path, found.meta, found.streams, found.notes)


class Trace(reader.Recorded):
    """What happened to buffers in one run. Tables are Arrow's; the columns are told in docs/trace-format.md.

    The first analysis goes over all events once; the others use what it found.
    """

    @cached_property
    def scanned(self) -> Scan:
        """What one pass over all events tells; see `tenure.analysis.scan`."""
        from tenure.analysis.scan import scan

        return scan(self.streams)

    def peak(self, device: str | None = None) -> Peak | None:
        """The moment with the most bytes alive, and what they were: by line, kind, scope, step and rank.

        The device is the accelerator with the highest peak if not said, or the host's memory if there is none.
        """
        from tenure.analysis.peak import peak

        return peak(self.scanned, device)

    def leaks(self) -> tuple[Leak, ...]:
        """What grew to the end of the run, who held it and where it was put there; what keeps the most comes first."""
        from tenure.analysis.leaks import leaks

        return leaks(self)

    def findings(self) -> list[Finding]:
        """The faults that were found, the gravest first."""
        return [*(told.heard(self.path) if self.path.is_dir() else []), *self._leak_findings()]

    def _leak_findings(self) -> list[Finding]:
        """Each leak as the fault it is; what several leaks show at one place is told once."""
        from tenure.faults import IN_RUN

        found: dict[tuple[object, ...], Finding] = {}
        for leak in self.leaks():
            finding = next((told for fault in IN_RUN if (told := fault.in_run(leak)) is not None), None)
            if finding is not None:
                main = finding.main
                found.setdefault((finding.code, main and (main.file, main.line)), finding)
        return list(found.values())
