"""One fault at one place, as `check`, `explain`, reports, pages and pytest all tell it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tenure.model import Site

Role = Literal["birth", "use", "end", "escape", "holder"]
Severity = Literal["error", "warning", "advice"]


@dataclass(frozen=True, slots=True)
class Place:
    """A site of a finding and the part it plays; `text` is the source line as it was when the finding was made."""

    role: Role
    file: str
    line: int
    function: str = ""
    text: str = ""
    column: int | None = None

    @classmethod
    def at(cls, role: Role, site: Site, column: int | None = None) -> Place:
        """The place of a site, with its line of source if that can be read."""
        return cls(role, site.file, site.line, site.function, site.text, column)

    def as_dict(self) -> dict[str, Any]:
        """As in the JSON of a finding."""
        told = {"role": self.role, "file": self.file, "line": self.line, "function": self.function, "text": self.text}
        return told if self.column is None else {**told, "column": self.column}


@dataclass(frozen=True, slots=True)
class Edit:
    """Text that takes the place of what stands from `start` to `end`: lines from 1, columns from 1, in characters."""

    file: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str

    def as_dict(self) -> dict[str, Any]:
        """As in the JSON of a finding."""
        return {"file": self.file, "start": list(self.start), "end": list(self.end), "text": self.text}


@dataclass(frozen=True, slots=True)
class Fix:
    """What to write instead. `safe`: applying the edits cannot change what a right program does."""

    message: str
    safe: bool = False
    edits: tuple[Edit, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As in the JSON of a finding."""
        return {"message": self.message, "safe": self.safe, "edits": [edit.as_dict() for edit in self.edits]}


@dataclass(frozen=True)
class Finding:
    """One fault at one place: what is wrong, the places that matter, what it rests on, and what to write instead.

    `places` are in the order in which they should be read; the finding stands at the first of them unless `at` names
    another. `certain` tells what was seen from what is likely. `evidence` holds plain data only: numbers, texts, lists.
    """

    code: str
    name: str
    message: str
    places: tuple[Place, ...]
    severity: Severity = "error"
    certain: bool = True
    reason: str = ""
    fix: Fix | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    at: Place | None = None

    @property
    def main(self) -> Place | None:
        """Where the finding stands."""
        return self.at or next(iter(self.places), None)

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        main = self.main
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "certain": self.certain,
            "message": self.message,
            "reason": self.reason,
            "file": main.file if main else None,
            "line": main.line if main else None,
            "column": (main.column or 1) if main else None,
            "sites": [place.as_dict() for place in self.places],
            "fix": self.fix.as_dict() if self.fix else None,
            "evidence": dict(self.evidence),
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Finding:
        """The finding that `as_dict` told. Raises KeyError, TypeError or ValueError for anything else."""
        places = tuple(Place(**{key: site[key] for key in site}) for site in told["sites"])
        fix = told.get("fix")
        made = None
        if fix:
            edits = tuple(Edit(e["file"], _pair(e["start"]), _pair(e["end"]), e["text"]) for e in fix["edits"])
            made = Fix(fix["message"], fix["safe"], edits)
        main = next((p for p in places if (p.file, p.line) == (told["file"], told["line"])), None)
        if main is None and told["file"] is not None:
            main = Place("use", told["file"], told["line"], column=told.get("column"))
        return cls(
            code=told["code"],
            name=told["name"],
            message=told["message"],
            places=places,
            severity=told["severity"],
            certain=told["certain"],
            reason=told.get("reason", ""),
            fix=made,
            evidence=dict(told.get("evidence", {})),
            at=main,
        )


def is_array(data: bytes) -> bool:
    """Whether this is a JSON array of findings, as `--findings` writes it."""
    try:
        told = json.loads(data)
        return isinstance(told, list) and all(Finding.from_dict(one) is not None for one in told)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def fingerprint(finding: Finding) -> str:
    """The finding without its line number, so that edits above it do not make it new."""
    import hashlib

    main = finding.main
    file = Path(os.path.relpath(main.file)).as_posix() if main and not main.file.startswith("<") else ""
    told = "\0".join([finding.code, file, main.function if main else "", main.text if main else ""])
    return hashlib.blake2b(told.encode(errors="backslashreplace"), digest_size=10).hexdigest()


def _pair(pair: Iterable[int]) -> tuple[int, int]:
    line, column = pair
    return int(line), int(column)
