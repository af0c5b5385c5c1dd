"""One line per finding."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.findings import Finding
from tenure.views.formats.text import clean, short


def render(findings: Sequence[Finding]) -> str:
    """Return `train.py:44:9: TN301 message` for each finding."""
    return "".join(_line(finding) + "\n" for finding in findings)


def _line(finding: Finding) -> str:
    main = finding.main
    where = f"{short(main.file)}:{main.line}:{main.column or 1}: " if main else ""
    return clean(f"{where}{finding.code} {finding.headline}")
