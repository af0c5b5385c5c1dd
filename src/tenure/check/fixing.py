"""Fixing files on disk, round after round, until nothing is left that can be fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenure.check import fix
from tenure.check.one_file import check_bytes, decoded
from tenure.check.settings import Settings
from tenure.findings import Finding

_ROUNDS = 8


@dataclass
class Fixed:
    """What was changed."""

    fixed: int = 0
    files: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def fix_files(findings: Sequence[Finding], settings: Settings, *, unsafe: bool, show: bool) -> Fixed:
    """Apply the fixes of findings; with `show`, only tell what would change."""
    done = Fixed()
    names = dict.fromkeys(
        edit.file for f in findings if fix.fixable(f, unsafe=unsafe) and f.fix for edit in f.fix.edits
    )
    for name in names:
        raw = Path(name).read_bytes()
        before = decoded(raw)
        text, count = before, 0
        for _ in range(_ROUNDS):
            found = [f for f in check_bytes(text.encode(), name).findings if settings.wants(f.code, name)]
            text, answered = fix.apply(text, found, name, unsafe=unsafe)
            count += len(answered)
            if not answered:
                break
        if text == before:
            continue
        done.fixed += count
        done.files.append(name)
        if show:
            done.differences.append(fix.difference(before, text, name))
        else:
            ends = "\r\n" if b"\r\n" in raw else "\n"
            Path(name).write_bytes(text.replace("\n", ends).encode())
    return done
