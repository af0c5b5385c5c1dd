"""The folder of a file store: how it is made, and how it is known again.

index.sqlite   which name has which file (SQLite, WAL)
tensors/       one safetensors file a tensor; `.part` while it is written
users/         one locked file for each process that writes or leases
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tenure.errors import StoreError
from tenure.sharing.store.file import connecting, forks, index

TENSORS = "tensors"
USERS = "users"
_DRAFT = ".index-"


def folder(rest: str, url: str) -> Path:
    """Return the folder of a URL: `file:PATH`, relative, absolute, or with `~`."""
    if rest.startswith("///"):
        rest = rest[2:]  # file:///tmp/x, as browsers write it
    if not rest or rest.startswith("//") or "\0" in rest:
        raise StoreError(f"{url!r} names no folder: write file:PATH, as in file:weights or file:/data/weights")
    try:
        return Path(os.path.abspath(Path(rest).expanduser()))  # noqa: PTH100 - links stay as they are
    except RuntimeError:
        raise StoreError(f"{url!r}: there is no home folder for the ~ in it") from None


def ready(path: Path, url: str, *, create: bool) -> None:
    """See that there is a store in the folder that this tenure understands; make one where there is nothing at all."""
    with forks.held_off():
        _ready(path, url, create=create)


def _ready(path: Path, url: str, *, create: bool) -> None:
    try:
        if not (path / index.FILE).exists():
            if not create:
                raise StoreError(f"{url} is not a store: it has no {index.FILE}")
            _make(path, url)
    except OSError as error:
        raise StoreError(f"{url}: no store can be made there ({error.strerror}: {error.filename})") from error
    _understood(path, url)


def _make(path: Path, url: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        if (path / index.FILE).exists():
            return  # another process was quicker
        other = next((one.name for one in path.iterdir() if not _leftover(one)), None)
        if other is not None:
            raise StoreError(f"{url} is neither a store nor empty: it contains {other!r}; name a new or empty folder")
        (path / TENSORS).mkdir(exist_ok=True)
        (path / USERS).mkdir(exist_ok=True)
        draft = path / f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            _index(draft)
            draft.rename(path / index.FILE)
            synced(path)
        except sqlite3.Error as error:
            raise StoreError(f"{url}: no store can be made there ({error})") from error
        finally:
            for left in path.glob(f"{_DRAFT}*"):
                left.unlink(missing_ok=True)


def _leftover(path: Path) -> bool:
    """Return whether the file may be left from an interrupted creation of a store, or exists on every disk."""
    if path.name in {TENSORS, USERS}:
        return path.is_dir() and not any(path.iterdir())
    return path.name.startswith(_DRAFT) or path.name == "lost+found"


def _index(path: Path) -> None:
    """Create a whole index in one file. It is closed before it gets its name, so no process sees half of it."""
    with contextlib.closing(connecting.connected(path, "mode=rwc")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(index.SCHEMA)
        connection.execute(f"PRAGMA application_id = {index.APPLICATION}")
        connection.execute(f"PRAGMA user_version = {index.VERSION}")


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _understood(path: Path, url: str) -> None:
    """Look at two numbers in the header, without locks or changes: it may not be ours to touch."""
    file = path / index.FILE
    try:
        with contextlib.closing(connecting.connected(file, "immutable=1")) as connection:
            application, version = (
                connection.execute(f"PRAGMA {one}").fetchone()[0] for one in ("application_id", "user_version")
            )
    except sqlite3.Error as error:
        raise StoreError(f"{url} is not a store: {index.FILE} cannot be read ({error}); nothing was changed") from error
    if application != index.APPLICATION:
        raise StoreError(f"{url} is not a store: {index.FILE} belongs to another program; nothing was changed")
    if version != index.VERSION:
        newer = "a newer tenure reads it" if version > index.VERSION else "an older tenure wrote it"
        raise StoreError(
            f"{url} has an index of version {version}, and this tenure knows version {index.VERSION}: {newer}; "
            "nothing was changed"
        )


def synced(path: Path) -> None:
    """Have the names in a folder survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
