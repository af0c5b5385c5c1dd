"""What the forms share: text that is safe to print, and files as seen from here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from tenure import untrusted


def clean(text: str) -> str:
    """Names and source may come from anywhere: what they say must not reach the terminal as commands."""
    return "".join(letter if letter.isprintable() else " " if letter in "\t\n" else "?" for letter in text)


class Stream(Protocol):
    """Where text is written."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""


def is_coloured(out: Stream) -> bool:
    """Whether colours are wanted there: not with NO_COLOR, then with FORCE_COLOR, then on a terminal that has them.

    An empty variable counts as unset. This is the order in which Python decides for its own tracebacks.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return out.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def short(file: str) -> str:
    """The file as seen from here, if it is below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def located(stack: str) -> tuple[str, str]:
    """The innermost place of a stack as a trace tells it, and the line of source there, if it can still be read."""
    site = stack.partition("\n")[0]
    file, _, line = site.rpartition(" in ")[0].rpartition(":")
    if not file or not line.isdigit() or "\0" in file:
        return site or "an unknown place", ""
    source = untrusted.line(file, int(line)).strip()[:120] if file.endswith((".py", ".pyw")) else ""
    return f"{short(file)}:{line}", source
