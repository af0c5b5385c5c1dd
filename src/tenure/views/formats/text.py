"""What the forms share: text that is safe to print, and files as seen from here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO


def clean(text: str) -> str:
    """Names and source may come from anywhere: what they say must not reach the terminal as commands."""
    return "".join(letter if letter.isprintable() else " " if letter in "\t\n" else "?" for letter in text)


def is_coloured(out: TextIO) -> bool:
    """Whether colours are wanted there."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def short(file: str) -> str:
    """The file as seen from here, if it is below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
