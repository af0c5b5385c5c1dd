"""Checking many files: from the cache where nothing changed, in several processes where it did."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tenure.findings import Finding
from tenure.lint import baseline as baselines
from tenure.lint import discover
from tenure.lint.cache import Cache, digest
from tenure.lint.one_file import Checked, check_bytes, check_text
from tenure.lint.settings import Settings

_WORTH_A_PROCESS = 400_000  # bytes to check


@dataclass
class Report:
    """What a check found: findings, files that could not be checked, comments that silence nothing."""

    findings: list[Finding] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    unused: list[tuple[str, int, tuple[str, ...]]] = field(default_factory=list)
    files: int = 0


def check_source(text: str | bytes, file: str = "<stdin>", settings: Settings | None = None) -> list[Finding]:
    """The findings in a piece of source."""
    checked = check_text(text, file) if isinstance(text, str) else check_bytes(text, file)
    settings = settings or Settings()
    return [finding for finding in checked.findings if settings.wants(finding.code, file)]


def check(
    paths: Sequence[str], settings: Settings, *, jobs: int | None = None, cache: bool = True, progress: Any = None
) -> Report:
    """Check files and folders. Raises TenureError for paths that are not there."""
    names = discover.files(paths, settings.exclude)
    roots = tuple(dict.fromkeys([*(p for p in paths if os.path.isdir(p)), "."]))
    known = Cache() if cache else None
    report = Report(files=len(names))
    for number, checked in enumerate(_all(names, roots, known, jobs)):
        if progress is not None:
            progress(number + 1, len(names))
        if checked.problem:
            report.problems.append((checked.file, checked.problem))
        report.findings += [f for f in checked.findings if settings.wants(f.code, checked.file)]
        report.unused += [(checked.file, line, codes) for line, codes in checked.unused]
    if known is not None:
        known.save()
    report.findings = _once(report.findings)
    report.findings.sort(
        key=lambda f: (f.main.file, f.main.line, f.main.column or 0, f.code) if f.main else ("", 0, 0, f.code)
    )
    if settings.baseline and os.path.exists(settings.baseline):
        report.findings = baselines.new(report.findings, baselines.read(settings.baseline))
    return report


def _once(findings: list[Finding]) -> list[Finding]:
    """Each fault once: several files can lead to one place, and the call that leads there is no fault of its own."""
    kept: dict[tuple[str, str, int], Finding] = {}
    for finding in findings:
        if finding.main is not None:
            kept.setdefault((finding.code, os.path.normpath(finding.main.file), finding.main.line), finding)
    found = []
    for finding in findings:
        main = finding.main
        if main is None:
            found.append(finding)
            continue
        if kept[finding.code, os.path.normpath(main.file), main.line] is not finding:
            continue
        led = finding.places[1] if len(finding.places) > 1 and finding.places[1].role == main.role else None
        if led is not None and (finding.code, os.path.normpath(led.file), led.line) in kept and led.file != main.file:
            continue
        found.append(finding)
    return found


def _all(names: Sequence[str], roots: tuple[str, ...], known: Cache | None, jobs: int | None) -> Iterator[Checked]:
    waiting: list[tuple[str, bytes, str]] = []
    size = 0
    for name in names:
        try:
            raw = discover.read(name)
        except OSError as error:
            yield Checked(name, problem=f"it cannot be read: {error.strerror or error}")
            continue
        content = digest(raw)
        entry = known.get(name, content) if known is not None else None
        if entry is not None:
            yield _remembered(name, entry)
            continue
        size += len(raw)
        waiting.append((name, raw, content))
        if size > 64 * 1024 * 1024:
            yield from _check_all(waiting, size, roots, known, jobs)
            waiting, size = [], 0
    yield from _check_all(waiting, size, roots, known, jobs)


def _check_all(
    waiting: list[tuple[str, bytes, str]], size: int, roots: tuple[str, ...], known: Cache | None, jobs: int | None
) -> Iterator[Checked]:
    workers = min(jobs or os.cpu_count() or 1, len(waiting))
    results: Iterator[Checked]
    if workers > 1 and size > _WORTH_A_PROCESS:
        results = _in_processes(waiting, roots, workers)
    else:
        results = (check_bytes(raw, name, roots) for name, raw, _ in waiting)
    contents = {name: content for name, _, content in waiting}
    for checked in results:
        if known is not None and not checked.problem:
            entry = {"found": [f.as_dict() for f in checked.findings], "unused": checked.unused}
            empty = not checked.findings and not checked.unused
            known.put(checked.file, contents[checked.file], 0 if empty else entry, checked.needs)
        yield checked


def _in_processes(waiting: list[tuple[str, bytes, str]], roots: tuple[str, ...], workers: int) -> Iterator[Checked]:
    # To fork is quicker, but not right with threads about.
    how = "fork" if threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods() else "spawn"
    tasks = [(name, roots) for name, _, _ in waiting]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(how)) as pool:
        yield from pool.map(_by_name, tasks, chunksize=max(1, min(16, len(tasks) // (4 * workers))))


def _by_name(task: tuple[str, tuple[str, ...]]) -> Checked:
    name, roots = task
    try:
        raw = discover.read(name)
    except OSError as error:
        return Checked(name, problem=f"it cannot be read: {error.strerror or error}")
    return check_bytes(raw, name, roots)


def _remembered(name: str, entry: Any) -> Checked:
    if entry == 0:
        return Checked(name)
    findings = [Finding.from_dict(found) for found in entry["found"]]
    return Checked(name, findings, unused=[(line, tuple(codes)) for line, codes in entry["unused"]])
