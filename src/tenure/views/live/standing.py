"""The status line of a run: its program, its state, and how long it has run."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.analysis.live import Device, Live
from tenure.model import size
from tenure.trace.following import Followed, Following
from tenure.views.live.chart import span
from tenure.views.live.picture import safe

_QUIET = 3.0  # seconds without an event that are worth a word


def rank(one: Followed) -> int | None:
    """Return the rank of a process, if it has one."""
    return None if one.tail.process is None else one.tail.process.rank


def order(one: Followed) -> tuple[bool, int, int]:
    """Ranks first, by number; the others as they came."""
    number = rank(one)
    return number is None, number or 0, one.number


def name(one: Followed) -> str:
    """Return the name of a process for users."""
    process = one.tail.process
    if process is None:
        return f"pid {one.pid}" if one.failure else "starting"
    return f"pid {process.pid}" if process.rank is None else f"rank {process.rank}"


def title(following: Following) -> str:
    """Return the program, from the command of its first process, and where the trace is."""
    commands = (one.tail.process.command for one in following.followed if one.tail.process is not None)
    command = next((" ".join(words) for words in commands if words), "")
    folder = following.place.name or str(following.place.resolve())
    return f"{safe(command, 120)}  →  {safe(folder, 80)}" if command else safe(folder, 80)


def subject(following: Following, one: Followed | None) -> str:
    """Return which processes are shown."""
    if one is not None:
        return name(one)
    count = len(following.followed)
    return f"{count} processes together" if count > 1 else name(following.followed[0]) if count else ""


def state(following: Following) -> str:
    """Return the state as one word: waiting, running or over."""
    if following.over:
        return "over"
    return "running" if any(one.state == "running" for one in following.followed) else "waiting"


def status(following: Following, live: Live, *, judged: bool) -> str:
    """Return whether the run continues, and how long it has run."""
    if not following.followed:
        return "nothing was recorded" if following.over else "waiting: no framework is imported yet"
    elapsed = span((live.last - live.first) / 1e6) if live.first else ""
    if following.over:
        return _over(following, elapsed) + ("" if judged else "; looking for what leaked …")
    if following.behind:
        return f"catching up: {size(following.behind)} of the trace to read"
    quiet = min((one.quiet for one in following.followed if one.state == "running"), default=0.0)
    if quiet >= _QUIET:
        return f"running {elapsed}, without an event for {span(quiet)}"
    return f"running {elapsed}" if elapsed else "starting"


def _over(following: Following, elapsed: str) -> str:
    states = [one.state for one in following.followed]
    if all(one == "ended" for one in states):
        return f"finished after {elapsed}" if elapsed else "finished"
    failures = [one.failure for one in following.followed if one.failure]
    killed = sum(one == "gone" for one in states) - len(failures)
    of_all = f" of {len(states)} processes" if len(states) > 1 else ""
    why = []
    if killed or not failures:
        why.append(f"no longer running here:{of_all and f' {killed}{of_all}'} killed, or on another machine")
    if failures:
        why.append(f"{of_all and f'{len(failures)}{of_all}: '}{stopped(failures[0])}")
    return "; ".join(why) + (f", after {elapsed}" if elapsed else "")


def stopped(failure: str) -> str:
    """Return the text about a process that could not write any more."""
    return f"the trace could not be written any further ({safe(failure, 100)})"


def others(devices: Sequence[Device], shown: Device | None) -> str:
    """Return the other devices, which are not shown."""
    return ", ".join(
        f"{safe(one.name, 20)} {size(one.bytes)} (peak {size(one.peak)})" for one in devices if one != shown
    )


def window(live: Live, minutes: float) -> tuple[int, int]:
    """Return the interval of the curve: the last minutes, or all of a shorter run."""
    until = max(live.known, live.first + 1)
    return max(live.first, until - round(minutes * 60e6)), until
