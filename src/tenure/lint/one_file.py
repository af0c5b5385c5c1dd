"""Checking one file: from its bytes to findings, or to the one line that says why it cannot be checked."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tenure import untrusted
from tenure.check.abstract_values import Module
from tenure.check.fact import Found
from tenure.check.program import follow, follow_module
from tenure.check.source_file import find_module, parse, triggers
from tenure.faults import MODULES
from tenure.findings import Finding, Place
from tenure.lint import notebooks, stored_text, suppressions
from tenure.lint.cache import digest

INTERNAL_ERROR = "internal error in tenure, please report it"
_LONGEST = 300_000  # lines: a tree of a longer file needs a gigabyte
_RULES = [module.in_source for module in MODULES if hasattr(module, "in_source")]


@dataclass
class Checked:
    """What came of one file."""

    file: str
    findings: list[Finding] = field(default_factory=list)
    problem: str = ""
    unused: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    needs: dict[str, str] = field(default_factory=dict)


def check_bytes(raw: bytes, file: str, roots: Sequence[str] = ()) -> Checked:
    """Check a file's content. Never raises for what is in it."""
    if not file.endswith(".ipynb"):
        return _checked(raw, None, file, roots)
    try:
        text, where = notebooks.source(raw)
    except notebooks.NotANotebook as error:
        return Checked(file, problem=str(error))
    made = _checked(text.encode(), text, file, roots, where)
    made.findings = [
        _in_cells(finding, where) if finding.main and finding.main.file == file else finding
        for finding in made.findings
    ]
    made.unused = [(where[line - 1][1], codes) for line, codes in made.unused if line <= len(where)]
    return made


def check_text(text: str, file: str, roots: Sequence[str] = ()) -> Checked:
    """Check source that is text already, whatever encoding it declares. Never raises for what is in it."""
    if file.endswith(".ipynb"):
        return check_bytes(text.encode(errors="replace"), file, roots)
    text = stored_text.plain(text)
    return _checked(text.encode(errors="replace"), text, file, roots)


def _checked(
    raw: bytes, text: str | None, file: str, roots: Sequence[str], where: Sequence[tuple[int, int]] = ()
) -> Checked:
    made = Checked(file)
    starts = triggers(raw)
    silenced = suppressions.MENTIONED.search(raw) is not None
    if starts is None and not silenced:
        return made
    if (lines := raw.count(b"\n")) > _LONGEST or len(raw) > 64 * _LONGEST:
        made.problem = f"it is too long to check: {lines:,} lines; the limit is {_LONGEST:,}"
        return made
    enabled = gc.isenabled()
    gc.disable()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 6000))
    try:
        _check(made, raw, text, file, starts, tuple(Path(root) for root in roots))
    except SyntaxError as error:
        made.problem = f"{_line(error.lineno or 1, where)}: {error.msg}"
    except (IndexError, KeyError) as error:  # both are LookupErrors, but no encoding is unknown
        made.problem = f"internal error in tenure, please report it: {type(error).__name__}: {error}"
    except (UnicodeDecodeError, LookupError) as error:
        made.problem = f"it cannot be decoded: {error}"
    except ValueError as error:
        made.problem = str(error)
    except (RecursionError, MemoryError):
        made.problem = "it is nested too deeply to check"
    except Exception as error:  # noqa: BLE001  one file must not stop the others; the error is reported
        made.problem = f"{INTERNAL_ERROR}: {type(error).__name__}: {error}"
    finally:
        sys.setrecursionlimit(limit)
        if enabled:
            gc.enable()
    return made


def _check(
    made: Checked, raw: bytes, text: str | None, file: str, starts: list[int] | None, roots: tuple[Path, ...]
) -> None:
    if text is None:
        text = stored_text.Stored(raw).text
    tree = parse(text, file)
    module = Module(file, text, tree)
    if starts is not None:
        others: dict[str, Module | None] = {}

        def loader(name: str, level: int, here: Module, *, near: bool = False) -> Module | None:
            return _load(name, level, here, () if near else roots, others, made.needs)

        facts = follow(module, starts, loader)
        found, likely = Found(f for f in facts if not f.likely), Found(f for f in facts if f.likely)
        for rule in _RULES:
            made.findings.extend(rule(found))
            made.findings.extend(_likely(finding) for finding in rule(likely))
    made.findings = list(
        {(f.code, f.main.file, f.main.line) if f.main else id(f): f for f in reversed(made.findings)}.values()
    )
    made.findings.sort(key=lambda f: (f.main.line, f.main.column or 0, f.code) if f.main else (0, 0, f.code))
    known = suppressions.comments(text)
    if known:
        made.findings, unused = suppressions.silence(made.findings, known)
        made.unused = [(comment.line, comment.codes) for comment in unused]


def _likely(finding: Finding) -> Finding:
    """A finding in code whose callers are unknown: a warning, whose fix is not applied unasked."""
    fix = replace(finding.fix, safe=False) if finding.fix else None
    severity = "warning" if finding.severity == "error" else finding.severity
    return replace(finding, certain=False, severity=severity, fix=fix)


def _load(
    name: str,
    level: int,
    here: Module,
    roots: tuple[Path, ...],
    others: dict[str, Module | None],
    needs: dict[str, str],
) -> Module | None:
    """Another file of the checked code, with its functions and classes, not what it does when imported."""
    path = find_module(name, level, here.file, roots)
    if path is None:
        return None
    key = str(path)
    if key in others:
        return others[key]
    others[key] = None
    try:
        raw = untrusted.content(path, 400_000)
        text = stored_text.Stored(raw).text
        module = Module(key, text, parse(text, key))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    needs[key] = digest(raw)
    try:
        follow_module(module)
    except Exception as error:  # noqa: BLE001  a file beside it must not hinder this one's check
        del error
        return None
    others[key] = module
    return module


def _line(line: int, where: Sequence[tuple[int, int]]) -> str:
    cell, line = where[min(line, len(where)) - 1] if where else (0, line)
    return f"cell {cell}, line {line}" if cell else f"line {line}"


def _in_cells(finding: Finding, where: list[tuple[int, int]]) -> Finding:
    def moved(place: Place) -> Place:
        if finding.main and place.file != finding.main.file:
            return place
        cell, line = where[min(place.line, len(where)) - 1]
        return replace(place, line=line, function=f"cell {cell}" if place.function == "<module>" else place.function)

    cell = where[min(finding.main.line, len(where)) - 1][0] if finding.main else 0
    fix = replace(finding.fix, edits=()) if finding.fix else None
    return replace(
        finding, places=tuple(moved(p) for p in finding.places), at=moved(finding.at) if finding.at else None, fix=fix,
        message=f"{finding.message} (cell {cell})", evidence={**finding.evidence, "cell": cell},
    )  # fmt: skip
