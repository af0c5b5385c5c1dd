"""Findings by content: a file that was checked before, and whose imports have not changed, is not checked again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import tenure
from tenure import cache, untrusted

_LIMIT = 300_000
_SALTED = re.compile(r"[0-9a-f]{16}\.json")


def salt() -> str:
    """Changes with every change of the rules."""
    home = Path(__file__).parent.parent
    parts = [tenure.__version__]
    files = (file for folder in ("check", "faults", "lint") for file in (home / folder).rglob("*"))
    for file in sorted(file for file in files if file.suffix in (".py", ".txt")):
        state = file.stat()
        parts.append(f"{file.name}:{state.st_size}:{state.st_mtime_ns}")
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def digest(raw: bytes) -> str:
    """The content, in short."""
    return hashlib.blake2b(raw, digest_size=12).hexdigest()


class Cache:
    """What is known of contents, in one file. What cannot be read or written is as if it were not there."""

    def __init__(self, path: Path | None = None) -> None:
        self._entries: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        self.path: Path | None = None
        try:
            self.path = path or cache.folder("check") / f"{salt()}.json"
            entries = json.loads(self.path.read_bytes()) if cache.is_ours(self.path) else {}
            self._entries = entries if isinstance(entries, dict) else {}
        except (OSError, ValueError):
            self._entries = {}

    def get(self, file: str, content: str) -> Any | None:
        """What was found in this content of this file, if all files it imports are as they were."""
        entry = self._entries.get(f"{file}\0{content}")
        if entry is None:
            return None
        for path, known in entry.get("needs", {}).items():
            try:
                if digest(untrusted.content(path, 400_000)) != known:
                    return None
            except OSError:
                return None
        return entry["findings"]

    def put(self, file: str, content: str, findings: Any, needs: dict[str, str]) -> None:
        """Remember."""
        entry: dict[str, Any] = {"findings": findings}
        if needs:
            entry["needs"] = needs
        self._new[f"{file}\0{content}"] = entry

    def save(self) -> None:
        """Write what is new; others may write at the same time, the last one wins whole."""
        if not self._new or self.path is None:
            return
        entries = {**self._entries, **self._new}
        if len(entries) > _LIMIT:
            entries = dict(list(entries.items())[-_LIMIT // 2 :])
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False, encoding="utf-8") as file:
                json.dump(entries, file)
            os.replace(file.name, self.path)
            for old in self.path.parent.glob("*.json"):
                if old != self.path and _SALTED.fullmatch(old.name):
                    old.unlink(missing_ok=True)
        except OSError:
            return
