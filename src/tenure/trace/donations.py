"""Donations that did not happen, and what read the arrays then: a file beside a process's stream, one JSON object a line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from tenure.model import Holder
from tenure.trace import told, typed


@dataclass(slots=True)
class Refused:
    """What one function, called at one place, was to reuse: in how many calls it could not, and the bytes in one."""

    framework: str
    function: str
    stack: str
    born: str  # where the largest of these arrays came from
    calls: int = 0
    count: int = 0
    bytes: int = 0
    readers: list[Holder] = field(default_factory=list)


def tell(folder: Path, refused: list[Refused]) -> None:
    """Keep these with the trace. Raises OSError where that cannot be written."""
    for one in refused:
        told.write(folder, "donations", dataclasses.asdict(one))


def heard(folder: Path) -> list[Refused]:
    """What was kept; what is damaged is passed over."""
    found = []
    for one in told.read(folder, "donations"):
        try:
            found.append(typed.made(Refused, one))
        except TypeError:
            continue
    return found
