"""The store in a folder. A put writes a new file, and then names it in the index: kill it when you like.

Under the index's write lock a file gets its name, a lease is given, a name is deleted. Nothing that takes long is done
there. What a killed process leaves behind (a file without a name) is seen by nobody, and cleared away by `gc`.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import shutil
import sqlite3
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tenure.errors import StoreError
from tenure.frameworks import exchange
from tenure.frameworks.exchanging.base import because
from tenure.model import Holder, Remains, Remnant, TensorInfo, size
from tenure.sharing import store
from tenure.sharing.store.base import Doer, Entry, Grave, Missing, Reading
from tenure.sharing.store.file import clearing, entries, index, layout, users
from tenure.sharing.store.file.index import Row
from tenure.sharing.store.file.presence import Presence, alive

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # of files or maps, which says nothing of the store
_POLL = 0.02  # seconds between two looks for leases that have ended


class FileStore:
    """A store in a folder; see `Backend`."""

    def __init__(self, folder: Path, *, durable: bool = False, create: bool = True) -> None:
        self.url = f"file:{folder}"
        layout.ready(folder, self.url, create=create)
        self.folder = folder
        self.tensors = folder / layout.TENSORS
        self.users = folder / layout.USERS
        self.index = index.Index(folder, self.url, writable=index.mine(folder), durable=durable)
        self._durable = durable
        self._presence: Presence | None = None
        self._numbers = itertools.count()
        self._released: deque[str] = deque()

    def put(self, name: str, tensor: Any, by: Doer, expect: int | None) -> int:
        """Write the bytes first, then the name."""
        host = exchange.host(tensor)
        if expect is not None:
            self._expected(self._row(name), name, expect)  # before gigabytes are written for nothing
        me = self._present()
        unique = secrets.token_hex(6)
        draft = self._draft(self.tensors / entries.part(me.id, unique), name, host, by)
        path, old = draft.path, None
        try:
            with self._writing() as connection:
                old = index.row(connection, name)
                if expect is not None:
                    self._expected(old, name, expect)
                version = index.last_version(connection, name) + 1
                path = draft.path.rename(self.tensors / entries.named(name, version, unique))
                if self._durable:
                    layout.synced(self.tensors)
                index.set_row(
                    connection,
                    Row(
                        name,
                        version,
                        path.name,
                        host.framework,
                        host.dtype,
                        host.shape,
                        host.data.nbytes,
                        draft.start,
                        draft.checksum,
                        by,
                    ),
                )
        except BaseException as error:  # an interrupt too: a file that no row names would be nobody's
            if not self._names(name, path.name):
                path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise self._trouble(name, host.data.nbytes, error) from error
            raise
        if old is not None:
            self._unlinked(old)
        return version

    def get(self, name: str, like: str | None) -> Reading:
        """Return the file, mapped."""
        return self._read(self._row(name), like)

    def entry(self, name: str) -> Entry | None:
        """From the index alone."""
        row = self._row(name)
        return row.entry if row else None

    def names(self) -> list[str]:
        """From the index alone."""
        return self.index.look(index.names)

    def delete(self, name: str, by: Doer, wait: float) -> Remains:
        """Delete the name at once. The bytes are freed when the last process that maps them exits or releases them."""
        until = time.monotonic() + wait
        while True:
            with self._writing() as connection:
                row = index.row(connection, name)
                if row is None:
                    raise Missing(name)
                held = self._leases(connection, name)
                if not held:
                    connection.execute(
                        "UPDATE entries SET file = NULL, deleted = ? WHERE name = ?", (index.packed(by), name)
                    )
            if not held:
                return self._ended(row, by)
            if time.monotonic() >= until:
                raise store.leased(self, name, held)
            time.sleep(min(_POLL, max(0.0, until - time.monotonic())))

    def grave(self, name: str) -> Grave | None:
        """Kept with the name's last version."""
        return self.index.look(lambda connection: index.grave(connection, name))

    def lease(self, name: str, by: Doer) -> tuple[Reading, str]:
        """Add a row to the index. It is valid as long as this process holds its lock in `users/`."""
        me = self._present()
        token = f"{me.id}:{next(self._numbers)}"
        try:
            with self._writing() as connection:
                row = index.row(connection, name)
                if row is None:
                    raise Missing(name)
                connection.execute("INSERT INTO leases VALUES (?, ?, ?, ?)", (token, name, me.id, index.packed(by)))
            return self._read(row, None), token
        except BaseException:  # an interrupt too, also right after the commit: nobody else has the token
            with contextlib.suppress(StoreError):  # what the caller must hear is the first trouble
                self.release(name, token)
            raise

    def release(self, name: str, token: str) -> None:
        """May come from the garbage collector at any moment, also inside of a transaction of this very thread."""
        me = self._presence
        if me is None or me.process != os.getpid() or not token.startswith(f"{me.id}:"):
            return  # closed, or the lease of the process that forked this one
        self._released.append(token)
        if not self.index.inside:
            self._release_all()

    def leases(self, name: str) -> list[Doer]:
        """Return the leases of processes that still run."""
        return self.index.look(lambda connection: self._leases(connection, name))

    def close(self) -> None:
        """Leases of this store end with it."""
        me, self._presence = self._presence, None
        if me is not None:
            me.end()
        self.index.close()

    def lost(self, row: Row) -> bool:
        """Return whether a row still names this missing file: it was not replaced or deleted meanwhile."""
        now = self._row(row.name)
        return now is not None and now.file == row.file

    # ------------------------------------------------------------------------------------------------ reading

    def _row(self, name: str) -> Row | None:
        return self.index.look(lambda connection: index.row(connection, name))

    def _read(self, row: Row | None, like: str | None) -> Reading:
        while row is not None:
            try:
                data = entries.mapped(self.tensors / row.file, row.name, row.dtype, row.shape, row.start)
            except FileNotFoundError:
                # Its file was replaced after we looked: look again.
                now = self._row(row.name)
                if now is not None and now.file == row.file:
                    raise self._damaged(row, "the file is gone") from None
                row = now
            except entries.Damaged as damage:
                raise self._damaged(row, str(damage)) from None
            except OSError as error:
                if error.errno in _SHORT:
                    raise StoreError(f"{self.url}: {row.name!r} cannot be read now: {error.strerror}") from error
                raise self._damaged(row, f"it cannot be read, {error.strerror}") from error
            else:
                made = exchange.made(like or row.framework, data, row.dtype, row.shape)
                return Reading(made.tensor, row.version, made.copied, because(made.why))
        raise Missing

    def _damaged(self, row: Row, how: str) -> StoreError:
        return StoreError(
            f"{self.url}: the file of {row.name!r} is damaged: {how}\n"
            f"  file: {self.tensors / row.file}\n"
            f"  put:  version {row.version} by {row.put}\n"
            "  fix:  put it again, or delete it; the other names are as they were (`tenure store check` checks all)"
        )

    # ------------------------------------------------------------------------------------------------ writing

    def _present(self) -> Presence:
        me = self._presence
        if me is None or me.process != os.getpid():
            try:
                with self._writing() as connection:
                    me = self._presence
                    if me is None or me.process != os.getpid():
                        # Whoever comes clears up after those who were killed.
                        clearing.dead(self.folder, connection, remove=True)
                        me = self._presence = Presence(self.users)
            except OSError as error:
                raise self._trouble("", 0, error) from error
        return me

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self.index.writing() as connection:
            yield connection
        if self._released:
            self._release_all()

    def _release_all(self) -> None:
        tokens = []
        with contextlib.suppress(IndexError):
            while True:
                tokens.append((self._released.popleft(),))
        if tokens:
            with self.index.writing() as connection:
                connection.executemany("DELETE FROM leases WHERE token = ?", tokens)

    def _draft(self, path: Path, name: str, host: exchange.Host, by: Doer) -> entries.Draft:
        try:
            return entries.written(path, name, host, by, durable=self._durable)
        except OSError as error:
            raise self._trouble(name, host.data.nbytes, error) from error

    def _trouble(self, name: str, nbytes: int, error: OSError) -> StoreError:
        what = f"{name!r} ({size(nbytes)}) was not put" if name else "nothing can be written"
        if error.errno in _FULL:
            free = size(shutil.disk_usage(self.folder).free)
            why = f"the disk is full, or a file may not be that large; {free} are free"
        else:
            why = f"{error.strerror}: {error.filename or self.folder}"
        return StoreError(f"{self.url}: {what}: {why}. Nothing was changed")

    def _expected(self, row: Row | None, name: str, expect: int) -> None:
        if (row.version if row else 0) != expect:
            raise store.conflict(self, name, expect, row.entry if row else None)

    def _names(self, name: str, file: str) -> bool:
        """Return whether the index names this file: an interrupt may arrive after the commit."""
        with contextlib.suppress(StoreError):
            row = self._row(name)
            return row is not None and row.file == file
        return False

    def _leases(self, connection: sqlite3.Connection, name: str) -> list[Doer]:
        found = index.leases(connection, name)
        living = {holder: alive(self.users, holder) for holder, _ in found}
        return [by for holder, by in found if living[holder]]

    # ------------------------------------------------------------------------------------------------ ends

    def _unlinked(self, row: Row) -> None:
        """Whoever maps it reads on: on POSIX, a file without a name lives as long as it is used."""
        with contextlib.suppress(OSError):  # it was damaged so far as to be gone, or is left for `gc`
            (self.tensors / row.file).unlink()

    def _ended(self, row: Row, by: Doer) -> Remains:
        info = TensorInfo(
            row.framework,
            row.shape,
            exchange.DTYPES[row.dtype][0] if row.dtype in exchange.DTYPES else row.dtype,
            "file",
            row.nbytes,
            state="deleted",
            born=row.put.site,
            ended=by.site,
            cause="delete",
        )
        try:
            fd = os.open(self.tensors / row.file, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            return Remains((Remnant("already", row.nbytes, (info,), f"its file was gone: {error.strerror}"),))
        try:
            self._unlinked(row)
            used = users.any_other(fd)
        finally:
            os.close(fd)
        if used is False:
            return Remains((Remnant("freed", row.nbytes, (info,)),))

        def find() -> list[Holder]:
            return users.holders(row.file)

        if used is None and not find():
            return Remains((Remnant("freed", row.nbytes, (info,), "as far as this process can see"),))
        return Remains((Remnant("held", row.nbytes, (info,), "mapped, until the last reader releases it", find),))
