"""Findings as SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tenure
from tenure.faults import FAULTS
from tenure.findings import Edit, Finding, Place, fingerprint
from tenure.views.formats import rule_page

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "advice": "note"}


def render(findings: Sequence[Finding]) -> str:
    """Return one run, with the rules of its findings."""
    codes = sorted({finding.code for finding in findings})
    driver = {
        "name": "tenure",
        "version": tenure.__version__,
        "rules": [_rule(code) for code in codes],
    }
    results = [_result(finding, codes) for finding in findings]
    seen: Counter[str] = Counter()
    for finding, result in zip(findings, results, strict=True):
        mark = fingerprint(finding)
        seen[mark] += 1
        # Services recognise a finding by this when lines above it change. A counter separates two of the same text.
        result["partialFingerprints"] = {"tenure/v1": f"{mark}:{seen[mark]}"}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, default=str) + "\n"


def _rule(code: str) -> dict[str, Any]:
    fault = FAULTS[code]
    text = rule_page.render(fault).strip()
    return {
        "id": code,
        "name": fault.name,
        "shortDescription": {"text": fault.title},
        "fullDescription": {"text": text},
        "help": {
            "text": f"{text}\n\nTo print this page: tenure explain {code}",
            "markdown": fault.page.strip(),
        },
        "defaultConfiguration": {"level": _LEVELS[fault.severity]},
    }


def _result(finding: Finding, codes: Sequence[str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.headline + (f"\n{finding.fix.message}" if finding.fix else "")},
        "properties": {"certain": finding.certain, "evidence": dict(finding.evidence)},
    }
    if finding.main:
        data["locations"] = [_location(finding.main)]
    if finding.places:
        data["relatedLocations"] = [{**_location(place), "message": {"text": place.shown}} for place in finding.places]
    if finding.fix and finding.fix.edits:
        data["fixes"] = [_fix(finding.fix.message, finding.fix.edits)]
    return data


def _uri(file: str) -> str:
    path = Path(file)
    if file.startswith("<"):
        return quote(file.strip("<>"))
    try:
        return quote(os.fsencode(path.absolute().relative_to(Path.cwd()).as_posix()))
    except (ValueError, OSError):
        return path.absolute().as_uri()


def _location(place: Place) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(1, place.line)}
    if place.column:
        region["startColumn"] = place.column
    if place.text:
        region["snippet"] = {"text": place.text}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region}}


def _fix(message: str, edits: Sequence[Edit]) -> dict[str, Any]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in edits:
        region = {
            "startLine": edit.start[0],
            "startColumn": edit.start[1],
            "endLine": edit.end[0],
            "endColumn": edit.end[1],
        }
        replacement = {"deletedRegion": region, "insertedContent": {"text": edit.text}}
        changes.setdefault(edit.file, []).append(replacement)
    data = [{"artifactLocation": {"uri": _uri(file)}, "replacements": parts} for file, parts in changes.items()]
    return {"description": {"text": message}, "artifactChanges": data}
