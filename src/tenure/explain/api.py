"""`explain`: the finding for an exception."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.findings import Finding


def explain(exc: BaseException | None = None) -> Finding | None:
    """The lifetime fault behind an exception, or None if tenure does not know one.

    Example:
        try:
            loss.backward()
        except RuntimeError as error:
            print(tenure.explain(error))

    Arguments:
        exc: the exception; by default the one that is being handled.

    Returns:
        a finding with the sites that matter and what to write instead. Nothing of what the exception's frames hold
        is shown, and nothing of it is called.
    """
    exc = sys.exception() if exc is None else exc
    if exc is None:
        return None
    import gc

    # Trees of source are many small objects: with a framework loaded, each collection that they set off takes long.
    collects = gc.isenabled()
    gc.disable()
    try:
        from tenure.explain import driver, raised

        return driver.find(raised.from_exception(exc))
    except Exception:  # noqa: BLE001 - an explanation that fails must not hide what it was to explain
        return None
    finally:
        if collects:
            gc.enable()
