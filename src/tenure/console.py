"""Messages on standard error, while that is what it was when the run began, and nowhere else.

A program may close descriptor 2, or put a log, a socket or a pipe in its place; a child process may have been given
another one. What is written there is the program's output, and a message in it would change that.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress

from tenure import descriptors

_PATIENCE = 1000  # milliseconds that a reader has to make room
_began = descriptors.identity(2)


def began() -> list[int] | None:
    """Return the identity of the first standard error, for JSON; None if it was closed."""
    return None if _began is None else list(_began)


def only(first: list[int] | None) -> None:
    """In a child process: write only if standard error is still the one that the run began with."""
    global _began
    if first is None or descriptors.identity(2) != tuple(first):
        _began = None


def is_open() -> bool:
    """Return whether messages may be written."""
    return _began is not None and descriptors.identity(2) == _began


def say(text: str) -> None:
    """Write a line that begins with `tenure:`. Never raises: a full disk or a closed pipe must not affect the program."""
    write(f"tenure: {text}\n")


def write(text: str) -> None:
    """Write a text. Never raises."""
    with suppress(Exception):  # whatever `sys.stderr` is by now, its own text comes first
        sys.stderr.flush()
    with suppress(OSError, ValueError):
        data = text.encode(errors="backslashreplace")
        while data and is_open() and _has_room():
            data = data[os.write(2, data[: select.PIPE_BUF]) :]


def flush() -> None:
    """Do nothing: text is written at once. With `write` and `isatty`, this makes a stream."""


def isatty() -> bool:
    """Return whether messages are printed to a terminal."""
    return is_open() and os.isatty(2)


def fileno() -> int:
    """Return the descriptor that messages are written to."""
    return 2


def _has_room() -> bool:
    """Return whether a write would not block: a pipe may have no reader."""
    asked = select.poll()
    asked.register(2, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in asked.poll(_PATIENCE))
