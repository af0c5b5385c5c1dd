"""What the forms share: text that is safe to print, and files as seen from here."""

from __future__ import annotations

from pathlib import Path


def clean(text: str) -> str:
    """Names and source may come from anywhere: what they say must not reach the terminal as commands."""
    return "".join(letter if letter.isprintable() else " " if letter in "\t\n" else "?" for letter in text)


def short(file: str) -> str:
    """The file as seen from here, if it is below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
