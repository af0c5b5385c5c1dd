"""What to report: from the command line, and from `[tool.tenure]` in pyproject.toml."""

from __future__ import annotations

import difflib
import fnmatch
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure import untrusted
from tenure.errors import TenureError
from tenure.faults import FAULTS

_KEYS = {"select": list, "ignore": list, "exclude": list, "per-file-ignores": dict, "baseline": str}
_NAMES = {list: 'a list of strings, as in ["TN3"]', dict: "a table", str: "a string"}
_LARGEST = 1 << 22  # bytes
_CODE = re.compile("tn?[0-9]*|all", re.IGNORECASE)


@dataclass(frozen=True)
class Settings:
    """Which codes count, where."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file: dict[str, tuple[str, ...]] = field(default_factory=dict)
    baseline: str | None = None

    def wants(self, code: str, file: str) -> bool:
        """Whether findings of `code` in `file` are reported."""
        name = FAULTS[code].name if code in FAULTS else ""
        if self.select and not _matches(code, name, self.select):
            return False
        if _matches(code, name, self.ignore):
            return False
        posix = Path(file).as_posix()
        for pattern, codes in self.per_file.items():
            if (fnmatch.fnmatch(posix, pattern) or fnmatch.fnmatch(posix, f"*/{pattern}")) and _matches(
                code, name, codes
            ):
                return False
        return True


def _matches(code: str, name: str, wanted: Sequence[str]) -> bool:
    return any(one == "ALL" or code.startswith(one) or one == name for one in wanted)


def codes(text: str | None) -> tuple[str, ...]:
    """`TN3,TN207,donated-buffer` as written on the command line. Raises TenureError for what is no code."""
    written = [part.strip() for part in (text or "").split(",") if part.strip()]
    found = tuple(map(spelt, written))
    for one, typed in zip(found, written, strict=True):
        known = one == "ALL" or any(code.startswith(one) or fault.name == one for code, fault in FAULTS.items())
        if not known:
            raise TenureError(f"{typed}: no such rule{_nearest(one, [*FAULTS, *(f.name for f in FAULTS.values())])}")
    return found


def spelt(code: str) -> str:
    """Return a code, a prefix of one, or a name as the rules spell it: `tn3` is TN3."""
    return code.upper() if _CODE.fullmatch(code) else code.lower()


def _nearest(word: str, words: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, words, 1)
    return f"; did you mean {near[0]}?" if near else "; `tenure rules` lists them"


def load(start: str) -> dict[str, Any]:
    """`[tool.tenure]` of the nearest pyproject.toml at or above `start` that has it. Raises TenureError for a wrong one."""
    here = Path(start).absolute()
    for folder in (here if here.is_dir() else here.parent, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file() and (found := _read(file)) is not None:
            return found
    return {}


def _read(file: Path) -> dict[str, Any] | None:
    """The settings in a file; None if it is of a project inside of another one, which says nothing of tenure."""
    try:
        raw = untrusted.content(file, _LARGEST)
        if b"tenure" not in raw:
            return None
        tool = tomllib.loads(raw.decode()).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TenureError(f"{file}: {error}") from None
    except OSError as error:
        raise TenureError(f"{file} cannot be read: {error.strerror or error}") from None
    if not isinstance(tool, dict) or "tenure" not in tool:
        return None
    table = tool["tenure"]
    if not isinstance(table, dict):
        raise TenureError(f"{file}: [tool.tenure] is not a table")
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, list(_KEYS), 1)
            raise TenureError(
                f"{file}: [tool.tenure] has no setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
        if not isinstance(value, _KEYS[key]):
            raise TenureError(f"{file}: {key!r} in [tool.tenure] must be {_NAMES[_KEYS[key]]}")
        if isinstance(value, list) and not _are_strings(value):
            raise TenureError(f"{file}: {key!r} in [tool.tenure] must be {_NAMES[list]}")
        for pattern, one in value.items() if isinstance(value, dict) else ():
            if not _are_strings(one):
                raise TenureError(f"{file}: {pattern!r} in [tool.tenure.{key}] must be {_NAMES[list]}")
    return {**table, "root": str(file.parent)}


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def made(table: dict[str, Any], *, select: str | None = None, ignore: str | None = None, exclude: Sequence[str] = (),
         baseline: str | None = None) -> Settings:  # fmt: skip
    """Settings from the file, with the command line's before them."""
    per_file = {str(k): codes(",".join(v)) for k, v in table.get("per-file-ignores", {}).items()}
    own = table.get("baseline")
    return Settings(
        select=codes(select) or codes(",".join(table.get("select", []))),
        ignore=codes(ignore) + codes(",".join(table.get("ignore", []))),
        exclude=(*exclude, *table.get("exclude", [])),
        per_file=per_file,
        baseline=baseline or (str(Path(table["root"]) / own) if own else None),
    )
