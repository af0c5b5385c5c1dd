"""An explanation as it is printed below a traceback. Whatever goes wrong here, the traceback stays the last word."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenure.findings import Finding

# The last exceptions told, by id and thread (another one may have the same id when the first is gone): one that passes
# two hooks is told once.
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
    """The explanation of an exception that has not been told yet. Never raises an Exception."""
    key = id(exc), get_ident()
    if exc is None or key in _told or not issubclass(type(exc), Exception):
        return None
    from tenure.explain.api import explain

    finding = explain(exc)
    _told.append(key)
    del _told[:-8]
    return finding


def show(finding: Finding, stream: Any) -> None:
    """Print a finding, with colour on a terminal that wants it."""
    if stream is None:
        return
    from tenure.views.formats.text import is_coloured

    stream.write("\n" + text(finding, colour=is_coloured(stream)))
    stream.flush()


def text(finding: Finding, *, colour: bool = False) -> str:
    """The finding as people read it."""
    from tenure.views.formats import full

    return full.render([finding], colour=colour)
