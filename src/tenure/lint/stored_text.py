"""Source as it is stored: its encoding, byte order mark and line ends, and files that are replaced whole."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import stat
import tempfile
import tokenize
from pathlib import Path

from tenure.errors import TenureError

_END = re.compile("\r\n|\r|\n")


def plain(text: str) -> str:
    """The text with the line ends that Python sees."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Stored:
    """The content of a file of source. Raises SyntaxError or UnicodeDecodeError if it cannot be decoded."""

    def __init__(self, raw: bytes) -> None:
        # For a byte order mark this is utf-8-sig, which writes it again.
        self.encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        whole = raw.decode(self.encoding)
        self.text = plain(whole)
        self._ends = _END.findall(whole)

    def encoded(self, changed: str) -> bytes:
        """A changed text in the same encoding, each line with the end that it had. Raises UnicodeEncodeError."""
        if set(self._ends) <= {"\n"}:
            return changed.encode(self.encoding)
        lines = changed.split("\n")
        ends = self._ends_of(lines)
        whole = "".join(line + end for line, end in zip(lines, ends, strict=False)) + "".join(lines[len(ends) :])
        return whole.encode(self.encoding)

    def _ends_of(self, lines: list[str]) -> list[str]:
        """The ends of these lines but the last; a new line ends as the line before it."""
        count = len(lines) - 1
        if len(set(self._ends)) == 1:
            return self._ends[:1] * count
        found: list[str] = []
        before = self.text.split("\n")
        for _, start, stop, first, last in difflib.SequenceMatcher(None, before, lines, autojunk=False).get_opcodes():
            for at in range(last - first):
                old = start + at
                if old < stop and old < len(self._ends):
                    found.append(self._ends[old])
                else:
                    found.append(found[-1] if found else self._ends[0])
        return found[:count]


def replaced(name: str, raw: bytes) -> None:
    """Replace the content of a file atomically, keep its mode and owner, and follow a symbolic link.

    Raises TenureError if the file has a second hard link or is not writable.
    """
    path = Path(os.path.realpath(name))
    try:
        known = path.stat()
        if not stat.S_ISREG(known.st_mode):
            raise TenureError(f"{name}: not fixed: it is not a regular file")
        if known.st_nlink > 1:
            raise TenureError(
                f"{name}: not fixed: the file has {known.st_nlink} hard links, and the fix would change only this one; "
                "make a copy of the file first"
            )
        if not os.access(path, os.W_OK):
            raise TenureError(f"{name}: not fixed: it is read-only for this process")
        handle, draft = tempfile.mkstemp(prefix=f".{path.name[:100]}-", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(raw)
                file.flush()
                _like(handle, path, known)
                os.fsync(handle)
            os.replace(draft, path)
        except BaseException:  # an interrupt too
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
    except OSError as error:
        raise TenureError(f"{name}: not fixed: {error.strerror or error}; the file is unchanged") from error


def _like(handle: int, path: Path, known: os.stat_result) -> None:
    """Owner, attributes (access lists are among them) and mode, as far as this process may set them."""
    with contextlib.suppress(OSError, AttributeError):
        os.fchown(handle, known.st_uid, known.st_gid)
    with contextlib.suppress(OSError, AttributeError):
        for attribute in os.listxattr(path):
            with contextlib.suppress(OSError):
                os.setxattr(handle, attribute, os.getxattr(path, attribute))
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(known.st_mode))
