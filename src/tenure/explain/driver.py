"""Asks the faults, the most specific first, which of them an exception is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tenure.errors import Unsupported
from tenure.faults import MODULES

if TYPE_CHECKING:
    from tenure.explain.raised import Raised
    from tenure.findings import Finding

# Where two faults can say the same words, the one with the narrower reading is asked first.
_FIRST = ("TN205", "TN303", "TN106", "TN102", "TN104", "TN207", "TN108", "TN211", "TN216", "TN215")


def _recognisers() -> list[Callable[[Raised], Finding | None]]:
    codes = {module.FAULT.code: module for module in MODULES}
    order = [*_FIRST, *(code for code in codes if code not in _FIRST)]
    found = (getattr(codes[code], "in_exception", None) for code in order)
    return [recognise for recognise in found if recognise is not None]


def find(raised: Raised) -> Finding | None:
    """The finding for an exception or for one that it came from, or None. Raises what a recogniser raises."""
    recognisers = _recognisers()
    for one in raised.chain():
        carried = Unsupported.of(one.exception)
        if carried is not None:
            return carried
        for recognise in recognisers:
            finding = recognise(one)
            if finding is not None:
                return finding
    return None
