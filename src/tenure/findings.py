"""A finding: one occurrence of a rule, in the form that `check`, `explain`, reports, pages and pytest share."""

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
# What is printed next to a line of source, unless the rule has a more exact word for it.
LABELS: dict[str, str] = {
    "birth": "created here",
    "use": "used here",
    "end": "released here",
    "escape": "escapes here",
    "holder": "stored here",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A source line of a finding, and its role.

    Attributes:
        role: `birth`, `use`, `end`, `escape` or `holder`.
        file: The path of the source file.
        line: The line number, counted from 1.
        function: The name of the function, or "".
        text: The source line as it was when the finding was made, or "".
        column: The column, counted from 1, or None.
        label: The label, such as "closed here", if the rule has a more exact one than the role's.
    """

    role: Role
    file: str
    line: int
    function: str = ""
    text: str = ""
    column: int | None = None
    label: str = ""

    @property
    def shown(self) -> str:
        """The label to print next to the line: `created here`."""
        return str(self.label or LABELS.get(self.role, "here"))

    @classmethod
    def at(cls, role: Role, site: Site, column: int | None = None) -> Place:
        """Return the place of a site, with its source line if that can be read."""
        return cls(role, site.file, site.line, site.function, site.text, column)

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON object, as in the JSON of a finding."""
        data = {"role": self.role, "file": self.file, "line": self.line, "function": self.function, "text": self.text}
        if self.column is not None:
            data["column"] = self.column
        return {**data, "label": self.label} if self.label else data


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of source text. Lines and columns count from 1, columns in characters.

    Attributes:
        file: The path of the source file.
        start: The line and column where the replaced text begins.
        end: The line and column where it ends.
        text: The new text.
    """

    file: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON object, as in the JSON of a finding."""
        return {"file": self.file, "start": list(self.start), "end": list(self.end), "text": self.text}


@dataclass(frozen=True, slots=True)
class Fix:
    """A change to the program that fixes the problem.

    Attributes:
        message: The change, as text.
        safe: True if the edits cannot change the behaviour of a correct program.
        edits: The changes to the source, if they can be made automatically.
    """

    message: str
    safe: bool = False
    edits: tuple[Edit, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON object, as in the JSON of a finding."""
        return {"message": self.message, "safe": self.safe, "edits": [edit.as_dict() for edit in self.edits]}


@dataclass(frozen=True)
class Finding:
    """One occurrence of a rule: the problem, the source lines involved, the reason and the fix.

    Attributes:
        code: The code of the rule, such as "TN301".
        name: The name of the rule, such as "loss-accumulated-with-graph".
        message: The problem in one line.
        places: The source lines involved, in reading order.
        severity: "error", "warning" or "advice".
        certain: False for what is only likely.
        reason: Why it is a problem.
        fix: What to write instead, or None.
        evidence: Plain data: numbers, strings and lists.
        at: The place at which the finding is located. Default: the first of `places`.
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
        """The place at which the finding is reported."""
        return self.at or next(iter(self.places), None)

    @property
    def headline(self) -> str:
        """The message as it is printed: what is not certain ends with `(likely)`."""
        return self.message if self.certain else f"{self.message} (likely)"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
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
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """Read a finding that `as_dict` returned. Raises KeyError, TypeError or ValueError for anything else."""
        places = tuple(Place(**{key: site[key] for key in site}) for site in data["sites"])
        fix = data.get("fix")
        made = None
        if fix:
            edits = tuple(Edit(e["file"], _pair(e["start"]), _pair(e["end"]), e["text"]) for e in fix["edits"])
            made = Fix(fix["message"], fix["safe"], edits)
        main = next((p for p in places if (p.file, p.line) == (data["file"], data["line"])), None)
        if main is None and data["file"] is not None:
            main = Place("use", data["file"], data["line"], column=data.get("column"))
        return cls(
            code=data["code"],
            name=data["name"],
            message=data["message"],
            places=places,
            severity=data["severity"],
            certain=data["certain"],
            reason=data.get("reason", ""),
            fix=made,
            evidence=dict(data.get("evidence", {})),
            at=main,
        )


def is_array(data: bytes) -> bool:
    """Return whether this is a JSON array of findings, as `--findings` writes it."""
    try:
        loaded = json.loads(data)
        return isinstance(loaded, list) and all(Finding.from_dict(one) is not None for one in loaded)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def fingerprint(finding: Finding) -> str:
    """Return an identifier without the line number, so that edits above the finding do not change it."""
    import hashlib

    main = finding.main
    file = Path(os.path.relpath(main.file)).as_posix() if main and not main.file.startswith("<") else ""
    parts = "\0".join([finding.code, file, main.function if main else "", main.text if main else ""])
    return hashlib.blake2b(parts.encode(errors="backslashreplace"), digest_size=10).hexdigest()


def _pair(pair: Iterable[int]) -> tuple[int, int]:
    line, column = pair
    return int(line), int(column)
