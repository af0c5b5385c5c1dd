"""What grew while a process ran, and who held it then: a file beside its stream, one JSON object a line.

A suspect is no finding yet: whether it is a leak is judged when the run is over, by `tenure.analysis.leaks`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure.model import Holder, Link, Site
from tenure.trace import told


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


def tell(folder: Path, suspects: list[Suspect]) -> None:
    """Keep these with the trace. Raises OSError where that cannot be written."""
    for suspect in suspects:
        told.write(folder, "suspects", dataclasses.asdict(suspect))


def heard(folder: Path) -> list[Suspect]:
    """What was kept; what is damaged is passed over."""
    found = []
    for one in told.read(folder, "suspects"):
        try:
            looks = [Look(**look) for look in one.pop("looks")]
            holders = [holder(each) for each in one.pop("holders")]
            found.append(Suspect(looks=looks, holders=holders, **one))
        except (KeyError, TypeError, AttributeError):
            continue
    return found


def holder(told: dict[str, Any]) -> Holder:
    """A holder, as JSON has it."""
    links = (Link(link["text"], link["kind"], Site(**link["site"]) if link["site"] else None) for link in told["links"])
    return Holder(told["kind"], tuple(links), told.get("nbytes"))
