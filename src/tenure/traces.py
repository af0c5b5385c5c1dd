"""A trace as users open it: its tables, and what the analyses make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.errors import TraceError
from tenure.findings import Finding
from tenure.trace import donations, reader, told

if TYPE_CHECKING:
    from tenure.analysis.diff import Diff, Moment
    from tenure.analysis.drag import Drag
    from tenure.analysis.leaks import Leak
    from tenure.analysis.peak import Peak
    from tenure.analysis.scan import Scan

_READ = ("holder", "escape")  # the places of findings that come from reading source, not from the recording
_CHANGED = "(the file was changed since this was recorded)"


def load(path: str | PathLike[str], *, cluster: bool = False) -> Trace:
    """Open a trace: its folder, or the stream of one process. Raises `TraceError` for what is none, or is damaged.

    A CUDA snapshot of PyTorch and a memory profile of JAX are opened too; what they do not know, `notes` say.

    With `cluster`, its streams are read and scanned by the Ray cluster that this process belongs to; the folder must be
    at the same place on all its nodes. The analyses say the same.
    """
    if cluster:
        from tenure.analysis.cluster import ClusterScan

        scanned = ClusterScan(Path(path))
        trace = Trace(Path(path), {}, scanned.streams, scanned.notes)
        trace.__dict__["scanned"] = scanned
        return trace
    found = reader.load(path)
    return Trace(found.path, found.meta, found.streams, found.notes)


class Trace(reader.Recorded):
    """What happened to buffers in one run. Tables are Arrow's; the columns are told in docs/trace-format.md.

    The first analysis goes over all events once; the others use what it found.
    """

    @cached_property
    def _peaks(self) -> dict[str | None, Peak | None]:
        return {}

    @cached_property
    def _drags(self) -> dict[str | None, Drag | None]:
        return {}

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

        if device not in self._peaks:
            self._peaks[device] = peak(self.scanned, device)
        return self._peaks[device]

    def drag(self, device: str | None = None) -> Drag | None:
        """What was held past its last use: bytes x time by line, and which `del` would have lowered the peak by how much.

        What it promises was checked against the trace. None if nothing was ever alive on the device.
        """
        from tenure.analysis.drag import drag

        if device not in self._drags:
            self._drags[device] = drag(self.scanned, device)
        return self._drags[device]

    def diff(
        self, other: Trace | None = None, *, at: Moment = None, to: Moment = None, device: str | None = None
    ) -> Diff:
        """What is new, gone, grown or shrunk, by line and by kind.

        Either from this trace to another one, each at its peak unless `at` (of this one) and `to` (of the other) say
        otherwise; or, without another, from the moment `at` to the moment `to` of this one. A moment is the end of a
        step (an int), seconds after the beginning (a float), or a time; None is the peak.
        """
        from tenure.analysis.diff import Look, diff

        if other is None and at is None and to is None:
            raise TypeError("diff needs another trace, or moments of this one: diff(at=10, to=20)")
        after = self if other is None else other
        looks = (Look(self.scanned, self.path.name, at), Look(after.scanned, after.path.name, to))
        return diff(*looks, device)

    def export(
        self,
        to: str,
        path: str | PathLike[str] | None = None,
        *,
        table: str = "buffers",
        tell: Callable[[int], None] = lambda rows: None,
    ) -> Path:
        """Write it as other tools read it, and say where: perfetto, pprof, speedscope, memory_viz, csv or parquet.

        Without a path, the file is called after the trace and lies here. `table` is which one csv and parquet write;
        `tell` hears of rows that are done.
        """
        from tenure.views.export import export

        return export(self, to, path, table=table, tell=tell)

    def leaks(self) -> tuple[Leak, ...]:
        """What grew to the end of the run, who held it and where it was put there; what keeps the most comes first."""
        from tenure.analysis.leaks import leaks

        return leaks(self.path, lambda: self.scanned)

    def to_html(self, path: str | PathLike[str], other: Trace | None = None) -> None:
        """Write a page that shows this trace, and what is different from another one. It needs no network.

        Raises `TraceError` where it cannot be written.
        """
        from tenure.views.html.build import both
        from tenure.views.html.page import render

        page = render(both(self, other))
        try:
            Path(path).write_text(page, "utf-8")
        except OSError as error:
            raise TraceError(f"{path} cannot be written: {error.strerror or error}") from error

    def findings(self) -> list[Finding]:
        """The faults that were found, the gravest first."""
        return [*self.faults(), *map(self._as_recorded, self._advice())]

    def faults(self) -> list[Finding]:
        """The findings without advice: what was told while the program ran, and what leaked."""
        seen = told.heard(self.path) if self.path.is_dir() else []
        return [*map(self._without_edits, seen), *map(self._as_recorded, self._leak_findings())]

    def _as_recorded(self, finding: Finding) -> Finding:
        """Without what was read from source files that were changed since: their lines may be others now."""
        places = [place for place in finding.places if place.role not in _READ or not self._changed(place.file)]
        kept = [replace(place, text=_CHANGED) if self._changed(place.file) else place for place in places]
        if not kept:
            return self._without_edits(finding)
        at = finding.at if finding.at is None or not self._changed(finding.at.file) else None
        return self._without_edits(replace(finding, places=tuple(kept), at=at))

    def _without_edits(self, finding: Finding) -> Finding:
        fix = finding.fix
        if fix is None or not any(self._changed(edit.file) for edit in fix.edits):
            return finding
        return replace(finding, fix=replace(fix, edits=()))

    def _changed(self, file: str) -> bool:
        from tenure.analysis.amounts import changed

        return changed(file, self.scanned.facts[0])

    def _advice(self) -> list[Finding]:
        """What would lower the peak, what was not reused though it was donated, and what the peak is made of."""
        from tenure.faults import tn501_held_past_last_use, tn502_makes_the_peak, tn503_view_blocks_donation

        drag, peak = self.drag(), self.peak()
        found: list[Finding | None] = [tn501_held_past_last_use.in_trace(one) for one in drag.advice] if drag else []
        refused = donations.heard(self.path) if self.path.is_dir() else []
        found += [tn503_view_blocks_donation.in_trace(one) for one in refused]
        found.append(tn502_makes_the_peak.in_trace(peak) if peak else None)
        return [finding for finding in found if finding is not None]

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
