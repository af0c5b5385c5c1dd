"""Findings as annotations for GitHub workflows."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.findings import Finding
from tenure.views.formats.text import short

_LEVELS = {"error": "error", "warning": "warning", "advice": "notice"}


def render(findings: Sequence[Finding]) -> str:
    """Return `::error file=…,line=…,col=…,title=…::message` for each finding."""
    return "".join(_line(finding) + "\n" for finding in findings)


def _line(finding: Finding) -> str:
    main = finding.main
    facts = {"title": f"{finding.code} {finding.name}"}
    if main:
        facts = {"file": short(main.file), "line": str(main.line), "col": str(main.column or 1), **facts}
    properties = ",".join(f"{key}={_property(value)}" for key, value in facts.items())
    fix = f"\n{finding.fix.message}" if finding.fix else ""
    return f"::{_LEVELS[finding.severity]} {properties}::{_data(finding.headline + fix)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
