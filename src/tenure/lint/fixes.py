"""Applying fixes: edits of text, so that comments and layout stay; what would no longer parse is not written."""

from __future__ import annotations

import ast
import difflib
import io
from collections.abc import Sequence

from tenure.findings import Edit, Finding


def fixable(finding: Finding, *, unsafe: bool) -> bool:
    """Whether the finding has edits that may be applied."""
    return finding.fix is not None and bool(finding.fix.edits) and (finding.fix.safe or unsafe)


def apply(text: str, findings: Sequence[Finding], file: str, *, unsafe: bool = False) -> tuple[str, list[Finding]]:
    """The text with fixes applied, and the findings they answered. Fixes that overlap wait for the next round."""
    edits: list[Edit] = []
    done: list[Finding] = []
    for finding in findings:
        if not fixable(finding, unsafe=unsafe):
            continue
        assert finding.fix is not None
        own = [edit for edit in finding.fix.edits if edit.file == file]
        if len(own) != len(finding.fix.edits):
            continue
        if all(edit in edits for edit in own):
            done.append(finding)
        elif not any(_overlap(edit, other) for edit in own for other in edits):
            edits += own
            done.append(finding)
    if not edits:
        return text, []
    changed = _edited(text, edits)
    try:
        ast.parse(changed)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _one_by_one(text, done, file)
    return changed, done


def _one_by_one(text: str, findings: Sequence[Finding], file: str) -> tuple[str, list[Finding]]:
    """The first of several fixes that leaves a program."""
    for finding in findings:
        assert finding.fix is not None
        changed = _edited(text, [edit for edit in finding.fix.edits if edit.file == file])
        try:
            ast.parse(changed)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return changed, [finding]
    return text, []


def _overlap(one: Edit, other: Edit) -> bool:
    if one.start == other.start:
        return True
    first, second = sorted((one, other), key=lambda edit: edit.start)
    return second.start < first.end


def _edited(text: str, edits: Sequence[Edit]) -> str:
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        (first, left), (last, right) = edit.start, edit.end
        joined = lines[first - 1][: left - 1] + edit.text + lines[last - 1][right - 1 :]
        lines[first - 1 : last] = joined.split("\n")
    return "\n".join(lines)


def difference(before: str, after: str, file: str) -> str:
    """What changed, as a unified diff."""
    lines = difflib.unified_diff(_lines(before), _lines(after), file, file)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Its lines with their ends: what else `splitlines` takes for an end is none in Python."""
    return io.StringIO(text, newline="\n").readlines()
