"""Findings that a process made while it ran: a file beside its stream, one JSON object a line."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tenure.findings import Finding

_LARGEST = 1 << 26


def tell(folder: Path, finding: Finding) -> None:
    """Keep a finding with the trace in `folder`. Raises OSError where that cannot be written."""
    line = json.dumps(finding.as_dict(), default=str) + "\n"
    # One write to the end of the file: lines of several threads do not mix.
    handle = os.open(folder / f"findings-{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, line.encode(errors="backslashreplace"))
    finally:
        os.close(handle)


def heard(folder: Path) -> list[Finding]:
    """The findings that were kept, process by process. A line that is damaged or unfinished is passed over."""
    found = []
    for path in sorted(folder.glob("findings-*.jsonl")):
        if path.stat().st_size > _LARGEST:
            continue
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(Finding.from_dict(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
    return found
