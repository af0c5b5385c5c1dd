"""Comments that silence findings: `# tenure: ignore[TN301]`, `# noqa: TN301`, and a report of those that silence nothing."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field

from tenure.findings import Finding
from tenure.lint.settings import spelt

# Only a file that names us has comments of ours to look at.
MENTIONED = re.compile(rb"#\s*tenure:\s*(?:file-)?ignore|#\s*noqa:[^\n]*\bTN\d", re.IGNORECASE)
_OURS = re.compile(r"#\s*tenure:\s*(file-)?ignore(?:\[([A-Za-z0-9_,\s-]*)\])?")
_NOQA = re.compile(r"#\s*noqa(?::\s*([A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)


@dataclass(slots=True)
class Comment:
    """One silencing comment. `codes` empty: it silences all."""

    line: int
    codes: tuple[str, ...]
    whole_file: bool = False
    ours: bool = True
    used: set[str] = field(default_factory=set)


def comments(text: str) -> list[Comment]:
    """The silencing comments of a source; one on a line of its own counts for the next line."""
    if "tenure:" not in text and "noqa" not in text:
        return []
    found: list[Comment] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                own_line = token.line[: token.start[1]].strip() == ""
                found += _read(token.string, token.start[0] + own_line)
    except (tokenize.TokenError, SyntaxError):
        pass  # the parser has reported what is wrong
    return found


def _read(comment: str, line: int) -> list[Comment]:
    ours = _OURS.search(comment)
    if ours:
        codes = tuple(spelt(code.strip()) for code in (ours[2] or "").split(",") if code.strip())
        return [Comment(line, codes, whole_file=bool(ours[1]))]
    noqa = _NOQA.search(comment)
    if noqa:
        codes = tuple(re.split(r"[,\s]+", noqa[1])) if noqa[1] else ()
        mine = tuple(code for code in map(str.upper, codes) if code.startswith("TN"))
        return [Comment(line, mine, ours=False)] if mine or not codes else []
    return []


def silence(findings: Sequence[Finding], known: list[Comment]) -> tuple[list[Finding], list[Comment]]:
    """The findings that no comment silences, and the comments that silence none."""
    kept: list[Finding] = []
    for finding in findings:
        silenced = False
        for comment in known:
            lines = {place.line for place in finding.places[:1]} | ({finding.main.line} if finding.main else set())
            applies = comment.whole_file or comment.line in lines
            if applies and (not comment.codes or finding.code in comment.codes or finding.name in comment.codes):
                comment.used.add(finding.code)
                silenced = True
        if not silenced:
            kept.append(finding)
    unused = [c for c in known if not c.used and (c.ours or c.codes)]
    return kept, unused
