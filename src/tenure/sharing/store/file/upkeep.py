"""Looking after a store while others use it: finding damage, and clearing away what killed processes left behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tenure.sharing.store.file import entries, index
from tenure.sharing.store.file.backend import FileStore
from tenure.sharing.store.file.index import Row
from tenure.sharing.store.file.presence import alive


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a name's file, or with the index (then without a name)."""

    name: str
    file: Path
    text: str


@dataclass(frozen=True, slots=True)
class Left:
    """A file that nobody needs any more."""

    file: Path
    nbytes: int
    why: str


def check(store: FileStore, progress: Callable[[Row], None] = lambda row: None) -> Iterator[Damage]:
    """Read every byte of the store, and compare it with what was put."""
    with store.index.reading() as connection:
        for (text,) in connection.execute("PRAGMA integrity_check"):
            if text != "ok":
                yield Damage("", store.folder / index.FILE, text)
        rows = index.rows(connection)
    for row in rows:
        progress(row)
        text = _wrong(store, row)
        if text:
            yield Damage(row.name, store.tensors / row.file, text)


def _wrong(store: FileStore, row: Row) -> str:
    try:
        data = entries.mapped(store.tensors / row.file, row.name, row.dtype, row.shape, row.start)
        entries.verified(data, row.checksum)
    except FileNotFoundError:
        # Unless it was replaced or deleted while we looked.
        return "the file is gone" if store.lost(row) else ""
    except entries.Damaged as damage:
        return str(damage)
    except OSError as error:
        return f"it cannot be read, {error.strerror}"
    return ""


def gc(store: FileStore, *, dry: bool = False) -> list[Left]:
    """Clear away files that no name needs, those of writers that were killed, and the leases of dead processes.

    All under the write lock, where files get their names: what has none then will get none.
    """
    with store.index.writing() as connection:
        left = [*orphans(store, connection), *_dead(store, connection)]
        if not dry:
            for one in left:
                one.file.unlink(missing_ok=True)
    return left


def orphans(store: FileStore, connection: sqlite3.Connection) -> Iterator[Left]:
    """Files that look like this store's, and that the index does not know."""
    known = {file for (file,) in connection.execute("SELECT file FROM entries WHERE file NOT NULL")}
    for path in sorted(store.tensors.iterdir()):
        if path.name not in known and entries.is_ours(path.name):
            yield Left(path, path.stat().st_size, "no name has it")


def _dead(store: FileStore, connection: sqlite3.Connection) -> Iterator[Left]:
    living = {path.name for path in store.users.iterdir() if alive(store.users, path.name)}
    for path in sorted(store.tensors.glob(f"*{entries.PART}")):
        if entries.writer(path.name) not in living:
            yield Left(path, path.stat().st_size, "its writer is dead")
    for path in sorted(store.users.iterdir()):
        if path.name not in living:
            yield Left(path, 0, "its process is dead")
    for (holder,) in connection.execute("SELECT DISTINCT holder FROM leases").fetchall():
        if holder not in living:
            connection.execute("DELETE FROM leases WHERE holder = ?", (holder,))
