"""Fixing files on disk, round after round, until nothing is left that can be fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tenure.errors import TenureError
from tenure.findings import Finding
from tenure.lint import discover, fixes, stored_text
from tenure.lint.one_file import check_text
from tenure.lint.settings import Settings

_ROUNDS = 8


@dataclass
class Fixed:
    """What was changed, and which files could not be."""

    fixed: int = 0
    files: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def fix_files(findings: Sequence[Finding], settings: Settings, *, unsafe: bool, show: bool) -> Fixed:
    """Apply the fixes of findings; with `show`, only show what would change."""
    done = Fixed()
    names = dict.fromkeys(
        edit.file for f in findings if fixes.fixable(f, unsafe=unsafe) and f.fix for edit in f.fix.edits
    )
    for name in names:
        try:
            stored = stored_text.Stored(discover.read(name))
            text, count = fixed(stored.text, name, settings, unsafe=unsafe)
            if text == stored.text:
                continue
            if show:
                done.differences.append(fixes.difference(stored.text, text, name))
            else:
                stored_text.replaced(name, stored.encoded(text))
        except TenureError as error:
            done.problems.append(str(error))
        except (OSError, SyntaxError, UnicodeError) as error:  # it was another file a moment ago
            done.problems.append(f"{name}: not fixed: {error}")
        else:
            done.fixed += count
            done.files.append(name)
    return done


def fixed(text: str, name: str, settings: Settings, *, unsafe: bool) -> tuple[str, int]:
    """The text with everything fixed that can be, and how many findings that answered."""
    count = 0
    for _ in range(_ROUNDS):
        found = [f for f in check_text(text, name).findings if settings.wants(f.code, name)]
        text, answered = fixes.apply(text, found, name, unsafe=unsafe)
        count += len(answered)
        if not answered:
            break
    return text, count
