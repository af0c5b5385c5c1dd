"""What of a run was not judged, and why. A view reports this before it reports that nothing was found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tenure.analysis.scan import Scan
from tenure.trace import checks, marks, suspects
from tenure.trace.checks import Checks
from tenure.trace.reader import Recorded
from tenure.trace.streams import Process

CHECKS, STEPS = 8, 16  # about as many as a leak needs to show
_MISSED = 0.5  # of the events
_NAMED = 4  # processes in a line
_CHECKING = "looking for leaks:"  # what a recorder's problems begin with that leave its events whole
_OTHER_TOOL = "the file is from another tool, which does not record them"
_IN_PYTHON: dict[str, tuple[tuple[str, ...], str]] = {
    "torch": (
        ("leaks", "peak"),
        "tenure did not see memory inside operations, or tensors of threads that started earlier",
    ),
    "jax": (("leaks", "peak", "last uses"), "tenure sampled arrays ten times per second, and did not see their uses"),
    "tensorflow": (("last uses",), "tenure did not see operations that read a variable"),
}


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A result that the trace does not give: "leaks", "peak" or "last uses".

    With `partly`, the trace gives some of it. `processes` are those that this is about.
    """

    what: str
    why: str
    partly: bool = False
    processes: tuple[int, ...] = ()


def not_judged(trace: Recorded, scan: Scan) -> tuple[NotJudged, ...]:
    """Return what the trace does not show. Causes that several processes have in common are one."""
    found: dict[tuple[str, str, bool], list[int]] = {}
    known = _checks(trace)
    for at, (process, source) in enumerate(zip(trace.processes, scan.sources, strict=True)):
        names, frameworks = source.texts("name"), source.texts("framework")
        allocated = any(most for most, _, _ in scan.peaks(at if len(scan.sources) > 1 else -1))
        why = _unchecked(trace, process, known.get(process.pid), len(scan.steps[at])) if allocated else ""
        limits = list(_of_process(process, names, frameworks, why))
        blind = {one.what for one in limits if not one.partly}
        for one in limits:
            found.setdefault((one.what, one.why, one.partly and one.what not in blind), []).append(process.number)
    return tuple(NotJudged(*cause, tuple(processes)) for cause, processes in found.items())


def extent(found: Iterable[NotJudged], what: str, processes: Collection[int]) -> Literal["all", "part", "none"]:
    """Return how much of a result was judged, over all of these processes."""
    about = [one for one in found if one.what == what]
    missing = {number for one in about if not one.partly for number in one.processes}
    return "all" if not about else "none" if missing >= set(processes) else "part"


def lines(found: Iterable[NotJudged], count: int) -> list[str]:
    """Return this as text, a line per cause; `count` is how many processes the trace has."""
    causes: dict[tuple[str, tuple[int, ...]], list[NotJudged]] = {}
    for one in found:
        causes.setdefault((one.why, one.processes), []).append(one)
    return [f"{_results(about)}: {why}{_some(processes, count)}" for (why, processes), about in causes.items()]


def of_leaks(trace: Recorded, scan: Scan) -> list[str]:
    """Return why leaks were not judged, as text: what a view says that reports findings alone."""
    return lines([one for one in not_judged(trace, scan) if one.what == "leaks"], len(trace.processes))


def _results(about: Sequence[NotJudged]) -> str:
    """Such as "leaks not checked, peak only partly checked"."""
    parts = [[one.what for one in about if one.partly == partly] for partly in (False, True)]
    said = zip(parts, ("not checked", "only partly checked"), strict=True)
    return ", ".join(f"{' and '.join(results)} {how}" for results, how in said if results)


def _some(processes: Sequence[int], count: int) -> str:
    """Which processes these are; nothing if they are all."""
    if len(processes) == count:
        return ""
    more = f" and {len(processes) - _NAMED:,} more" if len(processes) > _NAMED else ""
    return f" ({'process' if len(processes) == 1 else 'processes'} {', '.join(map(str, processes[:_NAMED]))}{more})"


def _checks(trace: Recorded) -> dict[int, Checks]:
    """The last checks of each process: a program that calls exec has those of the one before, too."""
    return {one.pid: one for one in checks.read(trace.path)} if trace.path.is_dir() else {}


def _of_process(
    process: Process, names: Sequence[str], frameworks: Collection[str], unchecked: str
) -> Iterator[NotJudged]:
    if not process.complete:
        yield NotJudged("leaks", process.how_it_ended)
        yield NotJudged("peak", process.how_it_ended, partly=True)
    elif unchecked:
        yield NotJudged("leaks", unchecked)
    if not process.uses:
        yield NotJudged("last uses", _OTHER_TOOL)
    for name in names:
        yield from _of_mark(name, frameworks)


def _unchecked(trace: Recorded, process: Process, seen: Checks | None, steps: int) -> str:
    """Why leaks would not have been found in a process that ended by itself; empty if they would."""
    if not process.uses:
        return _OTHER_TOOL
    if not trace.path.is_dir():
        return f"this is one stream of a trace; its leak checks are in the folder: tenure report {trace.path.parent}"
    if seen is None:
        return "the trace contains no leak checks of this process"
    lost = seen.suspects - len(suspects.heard(trace.path, seen.pid))
    if lost > 0:
        return (
            f"{lost} of {seen.suspects} leak candidates cannot be read: suspects-{seen.pid}.jsonl is damaged or missing"
        )
    if seen.missed > _MISSED * seen.events:
        return f"the main thread was busy in one call during {seen.missed / seen.events:.0%} of the events"
    if 0 < steps < STEPS:
        return f"the run was too short ({steps} of about {STEPS} steps); record {STEPS} steps"
    if seen.count < CHECKS:
        more = "a longer run" if steps else f"{STEPS} iterations"
        return f"the run was too short ({seen.count} of about {CHECKS} leak checks); record {more}"
    if seen.unstepped:
        return (
            "the program has an optimizer, but tenure saw no step of it, and looks for growth only after the third step"
        )
    return ""


def _of_mark(name: str, frameworks: Collection[str]) -> Iterator[NotJudged]:
    """What a recorder noted in its stream. How a framework is recorded matters if it allocated something."""
    problem, partly, recording = marks.read_trouble(name), marks.read_partly(name), marks.read_recording(name)
    if problem is not None:
        for what in ("leaks",) if problem.startswith(_CHECKING) else ("leaks", "peak"):
            yield NotJudged(what, f"while recording: {problem}", partly=True)
    elif partly is not None:
        for what in partly[0]:
            yield NotJudged(what, partly[1], partly=True)
    elif recording is not None and not recording[1] and recording[0] in _IN_PYTHON and recording[0] in frameworks:
        results, why = _IN_PYTHON[recording[0]]
        for what in results:
            told = f"{recording[0]} was recorded without native extensions (see `tenure doctor`), so {why}"
            yield NotJudged(what, told, partly=recording[0] != "jax" or what != "last uses")
