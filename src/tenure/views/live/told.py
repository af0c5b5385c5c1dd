"""The notes of a run besides its events: findings, out-of-memory reports, and growth with its holders."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from tenure.analysis.leaks import Leak, so_far
from tenure.faults import IN_RUN
from tenure.findings import Finding
from tenure.model import size
from tenure.trace import suspects
from tenure.trace.following import Lines
from tenure.trace.streams import Process
from tenure.trace.suspects import GROWING, Suspect
from tenure.views.formats.text import located, short
from tenure.views.live.picture import Note, safe

_MOST = 50  # notes of a kind
_LINKS = 8  # of a holder's path
_WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError)  # what damaged lines lead to


class Told:
    """The findings and notes of a run so far."""

    def __init__(self, folder: Path) -> None:
        self._findings = Lines(folder, "findings")
        self._growing = Lines(folder, GROWING)
        self._ends = Lines(folder, "autopsy")
        self._found: list[Finding] = []
        self._out: list[Note] = []
        self._suspects: dict[tuple[Any, ...], Suspect] = {}
        self._likely: dict[int, list[Finding]] = {}

    def read(self) -> None:
        """Take up what is new."""
        for _, one in self._findings.read():
            try:
                self._found.append(Finding.from_dict(one))
            except _WRONG:  # passed over, as `told.heard` does
                continue
        for _, one in self._ends.read():
            self._out.extend(_out_of_memory(one))
        grown = {pid for pid, one in self._growing.read() if self._keep(pid, one)}
        for pid in grown:
            self._likely[pid] = list(self._judged(pid))

    def _keep(self, pid: int, one: dict[str, Any]) -> bool:
        suspect = suspects.suspect(one)
        if suspect is None:
            return False
        key = (pid, str(suspect.framework), str(suspect.what), str(suspect.stack))
        self._suspects[(*key, str(suspect.name)) if suspect.what == "traces" else key] = suspect
        return True

    def _judged(self, pid: int) -> Iterator[Finding]:
        """Return the leaks of one process if it exited now."""
        seen = set()
        own = [suspect for key, suspect in self._suspects.items() if key[0] == pid]
        for leak in _leaks(own):
            finding = next((told for fault in IN_RUN if (told := fault.in_run(leak)) is not None), None)
            if finding is not None and (key := _key(finding)) not in seen:
                seen.add(key)
                yield finding

    def notes(
        self, verdict: Sequence[Finding] | None, process: Process | None, ended: Collection[int]
    ) -> tuple[Note, ...]:
        """Return the notes of a process, or of all: the result when there is one, before that what was seen.

        Of processes that did not end in peace nothing was judged: what was seen of them stays.
        """
        likely: dict[tuple[Any, ...], Finding] = {}
        for pid, found in self._likely.items():
            if (process is None or process.pid == pid) and (verdict is None or pid not in ended):
                likely.update({_key(one): one for one in found})
        seen = [_note(one) for one in (self._found if verdict is None else verdict)[:_MOST]]
        return (*self._out[:_MOST], *seen, *(_note(one, so_far=True) for one in list(likely.values())[:_MOST]))


def _leaks(found: Sequence[Suspect]) -> tuple[Leak, ...]:
    """Return the valid leak candidates: a line may be damaged and still be JSON."""
    sound = []
    for one in found:
        try:
            so_far([one])
        except _WRONG:
            continue
        sound.append(one)
    return so_far(sound)


def _key(finding: Finding) -> tuple[Any, ...]:
    main = finding.main
    return finding.code, main and (main.file, main.line)


def _note(finding: Finding, *, so_far: bool = False) -> Note:
    main = finding.main
    where = f"  {short(str(main.file))}:{main.line}" if main is not None else ""
    title = f"{'likely ' if so_far else ''}{finding.code} {finding.name}{where}"
    text = f"  {main.text}" if main is not None and main.text else ""
    path = finding.evidence.get("path")
    links = [safe(str(link), 120) for link in path[:_LINKS]] if isinstance(path, list) else []
    if isinstance(path, list) and len(path) > _LINKS:
        links.append("…")
    return Note(safe(title + text), safe(str(finding.message)), tuple(links), certain=not so_far)


def _out_of_memory(one: dict[str, Any]) -> Iterator[Note]:
    try:
        place, source = located(str(one["stack"]))
        told = f"step {int(one['step'])}, {size(int(one['alive']))} alive: {one['why']}"
    except (*_WRONG, OverflowError):
        return
    yield Note(safe(f"out of memory  {place}" + (f"  {source}" if source else "")), safe(told))
