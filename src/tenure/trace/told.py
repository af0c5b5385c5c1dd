"""What a process has to tell beside its events, such as findings: files beside its stream, one JSON object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tenure import descriptors, untrusted
from tenure.findings import Finding, Place, Severity
from tenure.trace import typed

# One kind is one file a process: `<kind>-<pid>.jsonl`. What is not listed here is not written.
Kind = Literal["findings", "suspects", "growing", "autopsy", "donations", "checks", "sources", "graphs"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_LARGEST = 1 << 26


@dataclass
class _Json:
    """A finding as JSON has it."""

    code: str
    name: str
    severity: Severity
    certain: bool
    message: str
    reason: str
    file: str | None
    line: int | None
    column: int | None
    sites: list[Place]
    fix: dict[str, Any] | None
    evidence: dict[str, Any]


def tell(folder: Path, finding: Finding) -> None:
    """Keep a finding with the trace in `folder`. Raises OSError where that cannot be written."""
    write(folder, "findings", finding.as_dict())


def heard(folder: Path) -> list[Finding]:
    """The findings that were kept, process by process; what is damaged is passed over."""
    found = []
    for one in read(folder, "findings"):
        try:
            shape = typed.made(_Json, one)
            if (shape.file is None) != (shape.line is None):
                continue
            found.append(Finding.from_dict(one))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def write(folder: Path, what: Kind, value: dict[str, Any]) -> None:
    """Add a line to this process's file of that kind. Raises ValueError for an unlisted kind.

    A file of an unlisted kind would stay where the trace is replaced, and be read as a part of the next one.
    """
    if what not in KINDS:
        raise ValueError(f"{what} is not a kind of file of a trace; add it to tenure.trace.told.Kind")
    line = json.dumps(value, default=str) + "\n"
    descriptors.append(folder / f"{what}-{os.getpid()}.jsonl", line.encode(errors="backslashreplace"))


def read(folder: Path, what: Kind, pid: int | None = None) -> Iterator[dict[str, Any]]:
    """Return the lines of one process, or of all. A damaged or unfinished line is skipped."""
    for path in sorted(folder.glob(f"{what}-{'*' if pid is None else pid}.jsonl")):
        try:
            lines = untrusted.content(path, _LARGEST).split(b"\n")
        except OSError:
            continue
        for line in lines:
            try:
                value = untrusted.parsed(line.decode(errors="replace"))
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
