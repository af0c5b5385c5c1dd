"""Connections to an index, also in a folder that this process may not write to."""

from __future__ import annotations

import contextlib
import sqlite3
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
READERS = 5000  # milliseconds; they wait only while one of them puts the log in order after a kill
_POLL = 0.005


def connected(path: Path, how: str) -> sqlite3.Connection:
    """Return a connection that begins no transactions by itself, and that any thread may use."""
    where = f"file:{urllib.parse.quote(str(path))}?{how}"
    return sqlite3.connect(where, timeout=READERS / 1000, isolation_level=None, check_same_thread=False, uri=True)


def look(path: Path, ask: Callable[[sqlite3.Connection], T]) -> T:
    """Return the result of `ask` on a read-only index.

    While a writer is there, SQLite reads with its help. Without one the file is read as it lies there, without any
    lock: so if a writer came meanwhile, we look again.
    """
    until = time.monotonic() + READERS / 1000
    while True:
        before = _state(path)
        alone = not before[0]
        try:
            with contextlib.closing(connected(path, "immutable=1" if alone else "mode=ro")) as connection:
                found = ask(connection)
        except sqlite3.Error:
            if (alone and _state(path) == before) or time.monotonic() > until:
                raise
        else:
            if not alone or _state(path) == before:
                return found
        time.sleep(_POLL)


def _state(path: Path) -> tuple[bool, int, int]:
    """Return whether there is a write-ahead log, which every writer has, and the file's size and time."""
    known = path.stat()
    return path.with_name(f"{path.name}-wal").exists(), known.st_mtime_ns, known.st_size
