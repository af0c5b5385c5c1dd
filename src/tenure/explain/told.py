"""Print an explanation below a traceback. No error here may hide the traceback."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenure.findings import Finding

# The exceptions that were explained last, by id and thread (a later exception may get the same id). An exception that
# passes two hooks is explained once.
_told: list[tuple[int, int]] = []


def below(exc: BaseException | None, stream: Any = None) -> Finding | None:
    """Print the explanation of an exception to standard error, if there is one. Never raises."""
    try:
        finding = look(exc)
        if finding is not None:
            show(finding, sys.stderr if stream is None else stream)
    except BaseException:  # noqa: BLE001 - also a Ctrl-C: the program is ending with another exception already
        return None
    return finding


def look(exc: BaseException | None) -> Finding | None:
    """Return the explanation of an exception, unless it was already returned. Never raises an Exception."""
    key = id(exc), get_ident()
    if exc is None or key in _told or not issubclass(type(exc), Exception):
        return None
    from tenure.explain.api import explain

    finding = explain(exc)
    _told.append(key)
    del _told[:-8]
    return finding


def show(finding: Finding, stream: Any) -> None:
    """Print a finding, as wide as the terminal, and with colours if it supports them."""
    if stream is None:
        return
    from tenure.views.formats.text import columns, is_coloured, width

    stream.write("\n" + text(finding, colour=is_coloured(stream), width=width(columns(stream))))
    stream.flush()


def text(finding: Finding, *, colour: bool = False, width: int = 100) -> str:
    """Return the finding as text."""
    from tenure.views.formats import full

    return full.render([finding], colour=colour, width=width)
