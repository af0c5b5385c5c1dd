"""Findings as a JSON array."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tenure.findings import Finding


def render(findings: Sequence[Finding]) -> str:
    """Return an array of objects; `[]` if there are no findings."""
    return json.dumps([finding.as_dict() for finding in findings], indent=1, default=str) + "\n"
