"""What was alive when memory ran out: a file beside a process's stream, one JSON object a line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure.model import Holder
from tenure.trace import told, typed


@dataclass(frozen=True, slots=True)
class Part:
    """Buffers born at one place: how many, their bytes, seconds since one of them was used, and who held one."""

    framework: str
    stack: str
    count: int
    bytes: int
    idle: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    holders: list[Holder] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Autopsy:
    """The moment: why it is told, the bytes that were wanted, where, in which step, and what was alive."""

    why: str
    wanted: int | None
    stack: str
    step: int
    alive: int
    parts: list[Part]


def tell(folder: Path, autopsy: Autopsy) -> None:
    """Keep it with the trace. Raises OSError where that cannot be written."""
    told.write(folder, "autopsy", dataclasses.asdict(autopsy))


def heard(folder: Path) -> list[Autopsy]:
    """What was kept; what is damaged is passed over."""
    found = []
    for one in told.read(folder, "autopsy"):
        try:
            found.append(typed.made(Autopsy, one))
        except TypeError:
            continue
    return found
