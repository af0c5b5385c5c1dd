"""`load` and `Trace`: a trace with its tables, and what the analyses compute from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tenure import untrusted
from tenure.analysis.amounts import CHANGED
from tenure.errors import TraceError
from tenure.findings import Finding
from tenure.trace import donations, folders, reader, told
from tenure.trace.source_copies import RecordedSource

if TYPE_CHECKING:
    from tenure.analysis.diff import Diff, Moment
    from tenure.analysis.drag import Drag
    from tenure.analysis.leaks import Leak
    from tenure.analysis.peak import Peak
    from tenure.analysis.scan import Scan


_READ = ("holder", "escape")  # roles of places that are found by reading source


def load(path: str | PathLike[str], *, cluster: bool = False) -> Trace:
    """Open a trace: its folder, or the `.arrows` file of one process.

    It also opens a CUDA snapshot of PyTorch and a memory profile of JAX; `notes` lists what these do not contain.

    Example:
        trace = tenure.load("tenure-train")
        print(trace.peak())

    Arguments:
        path: The folder or file.
        cluster: Let the Ray cluster of this process read the trace. All nodes must see the folder at the same path. The
            results are the same.

    Raises:
        TraceError: There is no trace, or it is damaged.
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
    """The record of one run: which buffers were allocated, used and freed. `tenure.load` returns it.

    Tables are Arrow tables; docs/trace-format.md lists their columns. The first analysis reads all events once, and the
    others use its result.

    Attributes:
        path: The folder or file of the trace.
        meta: The description of the run: command, start, versions.
        notes: What is missing in the trace, as text.
    """

    @cached_property
    def _peaks(self) -> dict[str | None, Peak | None]:
        return {}

    @cached_property
    def _drags(self) -> dict[str | None, Drag | None]:
        return {}

    @cached_property
    def source(self) -> RecordedSource:
        """The source files of the run, as they were then."""
        return RecordedSource(self.path, lambda: self.scanned.facts[0])

    @cached_property
    def scanned(self) -> Scan:
        """The result of one pass over all events; the analyses use it."""
        from tenure.analysis.scan import scan

        return scan(self.streams)

    def peak(self, device: str | None = None) -> Peak | None:
        """Return the point in time with the most bytes alive: what was alive, by line, kind, scope, step and rank.

        Arguments:
            device: A device such as "cuda:0". Default: the accelerator with the highest peak, else the host's memory.
        """
        from tenure.analysis.peak import peak

        if device not in self._peaks:
            with untrusted.reading(self.source):
                self._peaks[device] = peak(self.scanned, device)
        return self._peaks[device]

    def drag(self, device: str | None = None) -> Drag | None:
        """Return what stayed allocated after its last use, and where a `del` lowers the peak and by how much.

        Each saving was verified by a replay of the trace. The result is None if nothing was ever alive on the device.
        """
        from tenure.analysis.drag import drag

        if device not in self._drags:
            with untrusted.reading(self.source):
                self._drags[device] = drag(self.scanned, device)
        return self._drags[device]

    def diff(
        self, other: Trace | None = None, *, at: Moment = None, to: Moment = None, device: str | None = None
    ) -> Diff:
        """Compare two points in time, and return what is new, gone, grown or shrunk, by line and by kind.

        Example:
            print(before.diff(after))
            print(trace.diff(at=10, to=20))

        Arguments:
            other: Another trace. Default: this one.
            at: The point in time in this trace: a step (int), seconds after the start (float), a datetime, or None for the peak.
            to: The point in time in `other`.
            device: Compare the memory of this device.
        """
        from tenure.analysis.diff import Look, diff

        if other is None and at is None and to is None:
            raise TypeError("diff needs another trace, or two points in time of this one: diff(at=10, to=20)")
        after = self if other is None else other
        looks = [Look(one.scanned, one.path.name, when, one.source) for one, when in ((self, at), (after, to))]
        return diff(looks[0], looks[1], device)

    def export(
        self,
        to: str,
        path: str | PathLike[str] | None = None,
        *,
        table: str = "buffers",
        tell: Callable[[int], None] = lambda rows: None,
    ) -> Path:
        """Write the trace for another tool, and return the path of the file.

        Arguments:
            to: "perfetto", "pprof", "speedscope", "memory_viz", "csv" or "parquet".
            path: The file. Default: a new file in this folder, named after the trace.
            table: The table that csv and parquet write: "buffers", "events", "sites", "steps" or "live".
            tell: A function that is called with the number of rows that were written.
        """
        from tenure.views.export import export

        return export(self, to, path, table=table, tell=tell)

    def leaks(self) -> tuple[Leak, ...]:
        """Return what grew until the end of the run, what retained it and which line stored it, the largest first."""
        from tenure.analysis.leaks import leaks

        with untrusted.reading(self.source):
            return leaks(self.path, lambda: self.scanned)

    def to_html(self, path: str | PathLike[str], other: Trace | None = None) -> None:
        """Write a page that shows this trace, and how it differs from `other`. The page needs no network.

        Raises:
            TraceError: The file cannot be written.
        """
        from tenure.views.html.build import both
        from tenure.views.html.page import render

        if any(folders.is_part(Path(path), one.path) for one in (self, other) if one is not None):
            raise TraceError(f"cannot write {path}: it is part of the trace")
        page = render(both(self, other))
        try:
            Path(path).write_text(page, "utf-8")
        except OSError as error:
            raise TraceError(f"{path} cannot be written: {error.strerror or error}") from error

    def findings(self) -> list[Finding]:
        """Return all findings of the run: errors and warnings, then advice."""
        with untrusted.reading(self.source):
            return [*self.faults(), *map(self._as_recorded, self._advice())]

    def faults(self) -> list[Finding]:
        """Return the findings of the run without advice: those reported while it ran, and its leaks."""
        seen = told.heard(self.path) if self.path.is_dir() else []
        with untrusted.reading(self.source):
            return [*map(self._without_edits, seen), *map(self._as_recorded, self._leak_findings())]

    def _as_recorded(self, finding: Finding) -> Finding:
        """Return the finding with a note instead of source that is not known any more."""
        lost = {place.file for place in finding.places if self.source.is_lost(place.file)}
        places = [place for place in finding.places if place.role not in _READ or place.file not in lost]
        noted = [replace(place, text=CHANGED) if place.file in lost else place for place in places or finding.places]
        return self._without_edits(replace(finding, places=tuple(noted)))

    def _without_edits(self, finding: Finding) -> Finding:
        """Return the finding without edits of files that were changed since the run: they would hit other lines."""
        fix = finding.fix
        if fix is None or not any(self.source.is_changed(edit.file) for edit in fix.edits):
            return finding
        return replace(finding, fix=replace(fix, edits=()))

    def _advice(self) -> list[Finding]:
        """Return what would lower the peak, what JAX could not reuse, and what the peak consists of."""
        from tenure.analysis.unused_graphs import unused_graphs
        from tenure.faults import (
            tn316_unused_graph,
            tn501_held_past_last_use,
            tn502_makes_the_peak,
            tn503_view_blocks_donation,
        )

        drag, peak = self.drag(), self.peak()
        found: list[Finding | None] = [tn501_held_past_last_use.in_trace(one) for one in drag.advice] if drag else []
        found += map(tn316_unused_graph.in_trace, unused_graphs(self.scanned, self.path) if self.path.is_dir() else ())
        refused = donations.heard(self.path) if self.path.is_dir() else []
        found += [tn503_view_blocks_donation.in_trace(one) for one in refused]
        found.append(tn502_makes_the_peak.in_trace(peak) if peak else None)
        return [finding for finding in found if finding is not None]

    def _leak_findings(self) -> list[Finding]:
        """Return one finding per leak; leaks at one place by one rule are one finding."""
        from tenure.faults import IN_RUN

        found: dict[tuple[object, ...], Finding] = {}
        for leak in self.leaks():
            finding = next((told for fault in IN_RUN if (told := fault.in_run(leak)) is not None), None)
            if finding is not None:
                main = finding.main
                found.setdefault((finding.code, main and (main.file, main.line)), finding)
        return list(found.values())
