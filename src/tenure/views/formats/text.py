"""Helpers that the formats share: text that is safe to print, and paths relative to the current folder."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tenure.analysis.amounts import source

_WIDTH = 100  # where there is no terminal
_NARROWEST = 40


def clean(text: str) -> str:
    """Replace control characters: names and source are untrusted and must not reach the terminal as commands."""
    return "".join(letter if letter.isprintable() else " " if letter in "\t\n" else "?" for letter in text)


class Stream(Protocol):
    """An output stream."""

    def isatty(self) -> bool:
        """Return whether it is a terminal."""


def is_coloured(out: Stream) -> bool:
    """Return whether to print colours: NO_COLOR turns them off, FORCE_COLOR on; otherwise the terminal decides.

    An empty variable counts as unset. This is the order in which Python decides for its own tracebacks.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return out.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def columns(out: Any) -> int | None:
    """Return the width of the terminal, if the stream is one."""
    try:
        return os.get_terminal_size(out.fileno()).columns if out.isatty() else None
    except (OSError, ValueError, AttributeError):
        return None


def width(columns: int | None) -> int:
    """Return how wide lines may be: COLUMNS if it is set, or the `columns` of the terminal if there is one."""
    text = os.environ.get("COLUMNS", "")
    asked = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return max(_NARROWEST, asked or columns or _WIDTH)


def short(file: str) -> str:
    """Return the path relative to the current folder, if the file is below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def changed(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the lines of an edit: those that it keeps at the beginning once, then the old ones, then the new ones."""
    kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    for sign, lines in ((" ", old[:kept]), ("-", old[kept:]), ("+", new[kept:])):
        yield from (f"{sign} {line.strip()}" for line in lines)


def located(stack: str) -> tuple[str, str]:
    """Return the innermost place of a stack from a trace, and its source line if that can still be read."""
    site = stack.partition("\n")[0]
    file, _, line = site.rpartition(" in ")[0].rpartition(":")
    if not file or not line.isdigit() or "\0" in file:
        return site or "unknown place", ""
    return f"{short(file)}:{line}", source(file, int(line))
