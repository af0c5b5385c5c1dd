"""A baseline: the findings an old project has today, so that only new ones are reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tenure import untrusted
from tenure.errors import TenureError
from tenure.findings import Finding, fingerprint

_LARGEST = 1 << 28  # bytes


def write(path: str, findings: Sequence[Finding]) -> None:
    """Write a baseline of these findings."""
    entries = [{"code": f.code, "file": f.main.file if f.main else "", "fingerprint": fingerprint(f)} for f in findings]
    Path(path).write_text(json.dumps({"version": 1, "findings": entries}, indent=1) + "\n", encoding="utf-8")


def is_baseline(data: bytes) -> bool:
    """Whether this is a file that `write` wrote."""
    try:
        return all("fingerprint" in one for one in json.loads(data)["findings"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def read(path: str) -> Counter[str]:
    """How often each fingerprint is excused. Raises TenureError if the file is not a baseline."""
    try:
        stored = json.loads(untrusted.content(path, _LARGEST))
        return Counter(str(one["fingerprint"]) for one in stored["findings"])
    except OSError as error:
        raise TenureError(f"cannot read the baseline {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TenureError(f"{path}: not a baseline ({error})") from None


def new(findings: Sequence[Finding], excused: Counter[str]) -> list[Finding]:
    """The findings that the baseline does not excuse."""
    left = Counter(excused)
    found: list[Finding] = []
    for finding in findings:
        mark = fingerprint(finding)
        if left[mark] > 0:
            left[mark] -= 1
        else:
            found.append(finding)
    return found
