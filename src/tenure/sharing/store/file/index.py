"""The index of a file store in SQLite: which name has which file, who leases it, who deleted it.

Readers never wait (WAL). Connections are lent to one thread at a time, and left alone after a fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from tenure import untrusted
from tenure.errors import StoreError
from tenure.model import Site
from tenure.sharing.store.base import Doer, Entry, Grave
from tenure.sharing.store.file import connecting, forks

T = TypeVar("T")
FILE = "index.sqlite"
_DIMENSIONS = 64  # the most that NumPy has, and no framework more
APPLICATION = 0x74656E72  # "tenr"
VERSION = 1
PATIENCE = 60.0  # seconds that a writer waits for others; each of them is done in milliseconds
_SHORTEST, _LONGEST = 0.0003, 0.01  # seconds between two tries
SCHEMA = """
CREATE TABLE entries (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL,  -- of the last put, also when the name was deleted since
  file TEXT UNIQUE,  -- NULL: deleted
  framework TEXT, dtype TEXT, shape TEXT, nbytes INTEGER,
  start INTEGER,  -- where in the file the bytes begin
  checksum TEXT,
  put TEXT,
  deleted TEXT
) WITHOUT ROWID;
CREATE TABLE leases (token TEXT PRIMARY KEY, name TEXT NOT NULL, holder TEXT NOT NULL, by TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX leases_of_name ON leases (name);
"""
_COLUMNS = "name, version, file, framework, dtype, shape, nbytes, start, checksum, put"


@dataclass(frozen=True, slots=True)
class Row:
    """A name that is there, and its file."""

    name: str
    version: int
    file: str
    framework: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    start: int
    checksum: str
    put: Doer

    @property
    def entry(self) -> Entry:
        """The same as all stores tell it."""
        return Entry(self.name, self.version, self.framework, self.shape, self.dtype, self.nbytes, self.put)


class Index:
    """The connections to the index of one store."""

    def __init__(self, folder: Path, url: str, *, writable: bool, durable: bool) -> None:
        self.url = url
        self.writable = writable
        self._path = folder / FILE
        self._durable = durable
        self._identity = self._seen()
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = self._torn = False
        self._inside = threading.local()
        weakref.finalize(self, _close_all, self._idle)  # of a store that nobody closed
        forks.watch(self)

    @property
    def inside(self) -> bool:
        """Return whether this thread is in a write transaction; a second one would wait for itself."""
        return getattr(self._inside, "now", False)

    def look(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `ask`, which is consistent if it is one statement. `ask` may be called several times."""
        with self._telling():
            if self.writable:
                with self._lending() as connection:
                    return ask(connection)
            self._check()
            with forks.held_off():
                return connecting.look(self._path, ask)

    @contextlib.contextmanager
    def _lending(self) -> Iterator[sqlite3.Connection]:
        with forks.held_off():
            connection = self._lent()
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection with the exclusive right to write. Other processes see all of the changes, or none."""
        if not self.writable:
            raise StoreError(f"{self.url} is read-only for this process: it can be read, and not changed")
        until = time.monotonic() + PATIENCE
        wait = _SHORTEST
        while True:
            with self._telling(), self._lending() as connection:
                if self._begun(connection, last=time.monotonic() > until):
                    self._inside.now = True
                    try:
                        yield connection
                        connection.execute("COMMIT")
                    finally:
                        self._inside.now = False
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                    return
            # Not inside of SQLite, which sleeps longer and longer, and where a fork would have to wait for us.
            time.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311 - so that two do not meet for ever
            wait = min(wait * 1.5, _LONGEST)

    def _begun(self, connection: sqlite3.Connection, *, last: bool) -> bool:
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if last or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        finally:
            connection.execute(f"PRAGMA busy_timeout = {connecting.READERS}")
        return True

    def close(self) -> None:
        """Close the connections, those that are lent when they come back."""
        self._closed = True
        with forks.held_off():
            _close_all(self._idle)

    def before_fork(self) -> None:
        """Nothing of SQLite goes through."""
        _close_all(self._idle)

    def forked(self) -> None:
        """Forget the parent's connection in a forked child, where it cannot be used."""
        self._torn = forks.inside()

    def _check(self) -> None:
        if self._closed:
            raise StoreError(f"{self.url} was closed, and cannot be used again")
        if self._torn:
            raise StoreError(
                f"{self.url}: this process was forked in the middle of a call of its parent; open it again"
            )
        if self._seen() != self._identity:
            raise StoreError(f"{self.url}: its folder was removed or replaced; open the store again")

    def _lent(self) -> sqlite3.Connection:
        self._check()
        try:
            return self._idle.pop()
        except IndexError:
            connection = connecting.connected(self._path, "mode=rw")
            try:
                connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            except sqlite3.Error:  # an index that is none
                connection.close()
                raise
            return connection

    def _seen(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise told(self.url, self._path, error) from error


def told(url: str, path: Path, error: sqlite3.Error) -> StoreError:
    """Return SQLite's error as a message for users."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"{url}: the disk is full ({path.name} could not grow); nothing was changed")
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreError(f"{url}: another process has locked {path.name} locked for {PATIENCE:.0f} s; is one stopped?")
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        return StoreError(f"{url}: {path.name} is read-only for this process; nothing was changed")
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreError(
            f"{url}: {path} is damaged ({error}); the tensors are in {path.parent / 'tensors'} as safetensors files"
        )
    return StoreError(f"{url}: {path.name} could not be used ({error}); nothing was changed")


def row(connection: sqlite3.Connection, name: str) -> Row | None:
    """Return the row of a name that exists."""
    found = connection.execute(f"SELECT {_COLUMNS} FROM entries WHERE name = ? AND file NOT NULL", (name,)).fetchone()  # noqa: S608
    return None if found is None else _row(found)


def rows(connection: sqlite3.Connection, wrong: list[Wrong] | None = None) -> list[Row]:
    """Return all names, in order. Invalid rows are added to `wrong`, or raised."""
    query = f"SELECT {_COLUMNS} FROM entries WHERE file NOT NULL ORDER BY name"  # noqa: S608
    found = []
    if wrong is not None:
        wrong.clear()  # for the same question may be asked again
    for one in connection.execute(query):
        try:
            found.append(_row(one))
        except Wrong as error:
            if wrong is None:
                raise
            wrong.append(error)
    return found


def set_row(connection: sqlite3.Connection, new: Row) -> None:
    """Set a name to a new version."""
    values = (*(getattr(new, column) for column in _COLUMNS.split(", ")[:5]), json.dumps(new.shape), new.nbytes)
    connection.execute(
        f"INSERT OR REPLACE INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (*values, new.start, new.checksum, packed(new.put)),
    )


def names(connection: sqlite3.Connection) -> list[str]:
    """Return all names, in order."""
    found = connection.execute("SELECT name FROM entries WHERE file NOT NULL ORDER BY name")
    return [_of(name, str, name, "name") for (name,) in found]


def grave(connection: sqlite3.Connection, name: str) -> Grave | None:
    """Return the deletion record of a name, with its version."""
    query = "SELECT version, deleted FROM entries WHERE name = ? AND file IS NULL"
    found = connection.execute(query, (name,)).fetchone()
    return Grave(name, _of(name, int, found[0], "version"), _doer(name, found[1], "deleted")) if found else None


def last_version(connection: sqlite3.Connection, name: str) -> int:
    """Return the version of the last put, also of a name that was deleted since."""
    found = connection.execute("SELECT version FROM entries WHERE name = ?", (name,)).fetchone()
    return _of(name, int, found[0], "version") if found else 0


def leases(connection: sqlite3.Connection, name: str) -> list[tuple[str, Doer]]:
    """Return who leases a name, each with its user of the store."""
    found = []
    for holder, by in connection.execute("SELECT holder, by FROM leases WHERE name = ?", (name,)):
        if _of(name, str, holder, "holder") in ("", ".", "..") or "/" in holder or "\0" in holder:
            raise Wrong(name, "holder", holder)
        found.append((holder, _doer(name, by, "by")))
    return found


class Wrong(sqlite3.DatabaseError):
    """A row that holds what was never put there, in a file that SQLite can read."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT

    def __init__(self, name: object, column: str, value: object) -> None:
        self.name = name if isinstance(name, str) else repr(name)[:40]
        self.text = f"column {column} of the index contains {repr(value)[:40]}"
        super().__init__(f"{self.name!r}: {self.text}")


def _row(found: tuple[Any, ...]) -> Row:
    name, version, file, framework, dtype, shape, nbytes, start, checksum, put = found
    for column, value in (("name", name), ("file", file), ("framework", framework), ("dtype", dtype),
                          ("shape", shape), ("checksum", checksum)):  # fmt: skip
        _of(name, str, value, column)
    for column, value in (("version", version), ("nbytes", nbytes), ("start", start)):
        _of(name, int, value, column)
    file = file.replace("/", "_")  # whatever an index says, nothing outside of its folder is read or removed
    if file in (".", "..") or "\0" in file:
        raise Wrong(name, "file", file)
    return Row(
        name, version, file, framework, dtype, _shape(name, shape), nbytes, start, checksum, _doer(name, put, "put")
    )


def _of(name: object, kind: type[T], value: Any, column: str) -> T:
    """Return the value of a column, after a check of its type, which SQLite only recommends."""
    if not isinstance(value, kind) or (isinstance(value, int) and value < 0):
        raise Wrong(name, column, value)
    return value


def _shape(name: str, text: str) -> tuple[int, ...]:
    try:
        sizes = untrusted.parsed(text)
    except ValueError:
        sizes = None
    if not isinstance(sizes, list) or len(sizes) > _DIMENSIONS:
        raise Wrong(name, "shape", text)
    if any(type(size) is not int or not 0 <= size < 1 << 63 for size in sizes):
        raise Wrong(name, "shape", text)
    return tuple(sizes)


def _doer(name: str, text: Any, column: str) -> Doer:
    try:
        return unpacked(_of(name, str, text, column))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Wrong(name, column, text) from None


def packed(doer: Doer) -> str:
    """Return the origin of a change as text."""
    return json.dumps(asdict(doer))


def unpacked(text: str) -> Doer:
    """And back. Raises ValueError, TypeError, KeyError or AttributeError for anything else."""
    known = untrusted.parsed(text)
    site = known.pop("site")
    found = Doer(Site(**site) if site else None, **known)
    place = found.site or Site("", 0, "")
    texts = (found.thread, found.host, place.file, place.function)
    if (
        not all(isinstance(text, str) for text in texts)
        or type(found.process) is not int
        or type(place.line) is not int
    ):
        raise TypeError
    if not isinstance(found.time, int | float):
        raise TypeError
    return found


def mine(path: Path) -> bool:
    """Return whether this process may write to a folder and the index in it."""
    return os.access(path, os.W_OK) and (not (path / FILE).exists() or os.access(path / FILE, os.W_OK))


def _close_all(idle: deque[sqlite3.Connection]) -> None:
    with contextlib.suppress(IndexError):
        while True:
            idle.pop().close()
