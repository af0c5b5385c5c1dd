"""How often a process was checked for leaks while it ran: a file next to its stream, one JSON object per line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.trace import told

_FILE: told.Kind = "checks"


@dataclass(frozen=True, slots=True)
class Checks:
    """The leak checks of one process.

    `count` is how many ran before the last one, which runs when the program ends. `events` is how many events they
    counted, and `missed` how many of these came while the main thread was busy and a check was overdue. `unstepped`
    says that there was an optimizer and no step of it, so that growth was not searched. `suspects` is how many leak
    candidates the process wrote, -1 in a trace of an older version.
    """

    pid: int
    count: int
    events: int
    missed: int
    unstepped: bool
    suspects: int = -1


def write(folder: Path, checks: Checks) -> None:
    """Add the checks of this process to the trace. Raises OSError where that cannot be written."""
    told.write(folder, _FILE, dataclasses.asdict(checks))


def read(folder: Path) -> list[Checks]:
    """Return the checks of all processes. A damaged line is skipped."""
    found = []
    for line in told.read(folder, _FILE):
        values: dict[str, Any] = {"suspects": -1} | line
        values = {part.name: values.get(part.name) for part in dataclasses.fields(Checks)}
        if all(type(values[part.name]).__name__ == part.type for part in dataclasses.fields(Checks)):
            found.append(Checks(**values))
    return found
