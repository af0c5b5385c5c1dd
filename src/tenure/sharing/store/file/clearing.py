"""Cleaning up after killed processes: files without a name, incomplete files, leases that are never released.

To be looked for under the index's write lock only, where files get their names and users appear: what has none then
will get none.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from tenure.sharing.store.file import entries, layout
from tenure.sharing.store.file.presence import alive


@dataclass(frozen=True, slots=True)
class Left:
    """A file that nobody needs any more."""

    file: Path
    nbytes: int
    why: str


def nameless(folder: Path, connection: sqlite3.Connection, *, remove: bool) -> list[Left]:
    """Tensors that the index does not know: put by a process that ended before it could name them."""
    known = {file for (file,) in connection.execute("SELECT file FROM entries WHERE file NOT NULL")}
    found = [path for path in (folder / layout.TENSORS).iterdir() if path.name not in known]
    whole = [path for path in found if entries.is_ours(path.name)]
    parts = [path for path in found if path.name.endswith(entries.PART)]
    parts = [path for path in parts if not (folder / layout.USERS / entries.writer(path.name)).exists()]
    return _gone([*whole, *parts], "no name refers to it", remove=remove)


def dead(folder: Path, connection: sqlite3.Connection, *, remove: bool) -> list[Left]:
    """Users that are no more, with what they were writing, and their leases."""
    users, tensors = folder / layout.USERS, folder / layout.TENSORS
    ended = [path for path in users.iterdir() if not alive(users, path.name)]
    parts = [part for path in ended for part in tensors.glob(entries.part(path.name, "*"))]
    if remove:
        connection.executemany("DELETE FROM leases WHERE holder = ?", [(path.name,) for path in ended])
    left = _gone(parts, "the process that wrote it has exited", remove=remove)
    return left + _gone(ended, "its process has exited", remove=remove)  # the last: what is cut short is found again


def _gone(files: list[Path], why: str, *, remove: bool) -> list[Left]:
    left = []
    for file in sorted(files):
        with contextlib.suppress(FileNotFoundError):
            left.append(Left(file, file.stat().st_size, why))
            if remove:
                file.unlink()
    return left
