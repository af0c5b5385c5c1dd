"""The function `explain`, which returns the finding for an exception."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.findings import Finding


def explain(exc: BaseException | None = None) -> Finding | None:
    """Return the finding that explains an exception, or None if no rule of tenure matches.

    Example:
        try:
            loss.backward()
        except RuntimeError as error:
            print(tenure.explain(error))

    Arguments:
        exc: The exception. The default is the one that is being handled.

    Returns:
        A finding with the source lines involved and what to write instead. It contains no values from the exception's
        frames, and no methods of these values are called.
    """
    exc = sys.exception() if exc is None else exc
    if exc is None:
        return None
    import gc

    # Parsing source creates many small objects. With a framework loaded, each garbage collection is slow.
    collects = gc.isenabled()
    gc.disable()
    try:
        from tenure.explain import driver, raised

        return driver.find(raised.from_exception(exc))
    except Exception:  # noqa: BLE001 - a failing explanation must not hide the exception
        return None
    finally:
        if collects:
            gc.enable()
