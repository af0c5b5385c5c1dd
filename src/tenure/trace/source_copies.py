"""Copies of the user's source files in a trace: what ran can be shown after the files were changed."""

from __future__ import annotations

import io
import itertools
import linecache
import os
import time
import tokenize
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from tenure import descriptors, sites, untrusted
from tenure.trace import told

_FILE: told.Kind = "sources"
_PYTHON = (".py", ".pyw")
_LARGEST = 1 << 20  # bytes of a file that is copied
_MOST = 1 << 24  # bytes of all copies of a process
_READ = 5_000  # copies that are read: many processes of a run have the same files
# Of `tenure run` and TENURE_TRACE this is before the script is read. What was changed later may not be what runs.
_BEGAN = time.time_ns()


class SourceCopies:
    """Writes a copy of each source file that occurs in stacks, once.

    A file that was changed after the program began is not copied, because nothing shows which version of it runs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: set[str] = set()
        self._bytes = 0

    def add(self, stacks: Iterable[str]) -> None:
        """Copy the files of these stacks. A file that cannot be read, or be written here, is left out."""
        files = {line.rpartition(":")[0] for stack in stacks for line in stack.split("\n")}
        for file in sorted(files - self._known):
            self._known.add(file)
            if file.endswith(_PYTHON) and sites.is_user(file) and self._bytes < _MOST:
                with suppress(OSError, ValueError, SyntaxError):  # the trace can be read without
                    text = _unchanged(file)
                    self._bytes += len(text)
                    told.write(self._folder, _FILE, {"file": file, "text": text})


def _unchanged(file: str) -> str:
    """Return the text of a file. Raises OSError if it is large or was changed since the program began."""
    untrusted.regular(file)
    opened = descriptors.ReadFile(Path(file))
    try:
        if opened.size() > _LARGEST:
            raise OSError(f"{file} is too large")
        raw = opened.read(_LARGEST, 0)
    finally:
        opened.close()
    if Path(file).stat().st_mtime_ns > _BEGAN:
        raise OSError(f"{file} was changed")
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    return io.TextIOWrapper(io.BytesIO(raw), encoding).read()


class RecordedSource:
    """The source files of a run as they were, for `untrusted.reading`.

    A file without a copy is read from disk if it is older than the run, which began at `began()` µs since 1970.
    """

    def __init__(self, folder: Path, began: Callable[[], int]) -> None:
        self._folder = folder
        self._began = began
        self._lines: dict[str, list[str]] = {}

    @cached_property
    def _copies(self) -> dict[str, str | None]:
        """The copies; None if two processes had different files of that name."""
        found: dict[str, str | None] = {}
        for one in itertools.islice(told.read(self._folder, _FILE), _READ) if self._folder.is_dir() else ():
            file, text = one.get("file"), one.get("text")
            if isinstance(file, str) and isinstance(text, str):
                found[file] = text if found.get(file, text) == text else None
        return found

    def lines(self, file: str) -> list[str]:
        """Return the lines of a file; empty if they are not known."""
        if file not in self._lines:
            copy = self._copies.get(file)
            if copy is not None:
                self._lines[file] = _as_lines(copy)
            else:
                self._lines[file] = [] if self.is_lost(file) else untrusted.on_disk(file)
        return self._lines[file]

    def is_lost(self, file: str) -> bool:
        """Return whether the file was changed since the run, and the trace has no copy of it."""
        return self._copies.get(file) is None and self.is_changed(file)

    def is_changed(self, file: str) -> bool:
        """Return whether this file of Python is not what ran. A missing file is not a changed one."""
        if not file.endswith(_PYTHON):
            return False
        try:
            written = os.stat(file).st_mtime_ns // 1000  # noqa: PTH116
        except (OSError, ValueError):
            return False
        copy = self._copies.get(file)
        linecache.checkcache(file)
        return written > self._began() if copy is None else untrusted.on_disk(file) != _as_lines(copy)


def _as_lines(text: str) -> list[str]:
    """Return the lines as linecache has them: the last one has an end, too."""
    lines = text.split("\n")
    return [f"{line}\n" for line in (lines if lines[-1] else lines[:-1])]
