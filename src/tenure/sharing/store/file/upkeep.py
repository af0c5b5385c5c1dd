"""Looking after a store while others use it: finding damage, and clearing away what killed processes left behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tenure.sharing.store.file import clearing, entries, index
from tenure.sharing.store.file.backend import FileStore
from tenure.sharing.store.file.clearing import Left
from tenure.sharing.store.file.index import Row


@dataclass(frozen=True, slots=True)
class Damage:
    """A problem with a name's file, or with the index (then without a name)."""

    name: str
    file: Path
    text: str


def check(store: FileStore, progress: Callable[[Row], None] = lambda row: None) -> Iterator[Damage]:
    """Read every byte of the store, and compare it with what was put."""
    for text in store.index.look(_integrity):
        yield Damage("", store.folder / index.FILE, text)
    wrong: list[index.Wrong] = []
    rows = store.index.look(lambda connection: index.rows(connection, wrong))
    for error in wrong:
        yield Damage(error.name, store.folder / index.FILE, error.text)
    for row in rows:
        progress(row)
        text = _wrong(store, row)
        if text:
            yield Damage(row.name, store.tensors / row.file, text)


def _integrity(connection: sqlite3.Connection) -> list[str]:
    return [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]


def _wrong(store: FileStore, row: Row) -> str:
    try:
        entries.verified(store.tensors / row.file, row.name, row.dtype, row.shape, row.start, row.checksum)
    except FileNotFoundError:
        # Unless it was replaced or deleted while we looked.
        return "the file is gone" if store.lost(row) else ""
    except entries.Damaged as damage:
        return str(damage)
    except OSError as error:
        return f"it cannot be read, {error.strerror}"
    return ""


def gc(store: FileStore, *, dry: bool = False) -> list[Left]:
    """Clear away files that no name needs, those of writers that were killed, and the leases of dead processes."""
    with store.index.writing() as connection:
        return [
            *clearing.nameless(store.folder, connection, remove=not dry),
            *clearing.dead(store.folder, connection, remove=not dry),
        ]
