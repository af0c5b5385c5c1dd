"""What grew while a process ran, and who held it then: a file beside its stream, one JSON object a line.

A suspect is no finding yet: whether it is a leak is judged when the run is over, by `tenure.analysis.leaks`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure.model import Holder
from tenure.trace import told, typed

GROWING: told.Kind = "growing"
KINDS = ("buffers", "nodes", "traces", "operations", "tapes", "shared")


@dataclass(frozen=True, slots=True)
class Look:
    """One look at it: events so far, the step, how many there were, their bytes, of how many steps they were."""

    events: int
    step: int
    count: int
    bytes: int
    steps: int


@dataclass(slots=True)
class Suspect:
    """Things of one origin that became more; see `tenure.frameworks.base.Crowd` for `what`, `stack` and `name`."""

    framework: str
    what: str
    stack: str
    name: str = ""
    looks: list[Look] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def tell(folder: Path, suspects: list[Suspect], what: told.Kind = "suspects") -> None:
    """Keep these with the trace. Raises OSError where that cannot be written.

    While a run goes on they are told as GROWING, for those who look on; the same may come again, and the last counts.
    """
    for suspect in suspects:
        told.write(folder, what, dataclasses.asdict(suspect))


def heard(folder: Path, pid: int | None = None) -> list[Suspect]:
    """Return what one process kept, or all. Damaged lines are skipped."""
    read = (suspect(one) for one in told.read(folder, "suspects", pid))
    return [one for one in read if one is not None]


def suspect(one: dict[str, Any]) -> Suspect | None:
    """A suspect, as JSON has it; None if that is damaged."""
    try:
        found: Suspect = typed.made(Suspect, one)
    except TypeError:
        return None
    amounts = [found.facts.get(name) for name in ("whole", "bytes")]
    if not all(one is None or type(one) is int for one in amounts):
        return None
    if found.what not in KINDS or not all(holder.links for holder in found.holders):
        return None
    return found
