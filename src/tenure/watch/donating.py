"""Donations that do not happen: what reads an array that a compiled function was to reuse, looked for as it is called."""

from __future__ import annotations

from tenure.frameworks.base import Crowd, Growing
from tenure.model import Holder
from tenure.trace.donations import Refused
from tenure.watch import holding

_SEARCHES = 3  # at one place, until a reader is found
_PLACES = 20  # searched at, in one process


class Donations:
    """Those of one process, by function and place."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Refused] = {}
        self._searches: dict[tuple[str, str], int] = {}

    def refused(self, crowd: Crowd, born: str, growing: Growing) -> None:
        """A call did not reuse these."""
        key = crowd.name, crowd.stack
        one = self._known.get(key)
        if one is None:
            if len(self._known) >= _PLACES:
                return
            one = self._known[key] = Refused(crowd.framework, crowd.name, crowd.stack, born)
        one.calls += 1
        one.count, one.bytes = max(one.count, crowd.count), max(one.bytes, crowd.nbytes)
        if not one.readers and self._searches.get(key, 0) < _SEARCHES:
            self._searches[key] = self._searches.get(key, 0) + 1
            one.readers = [holder for holder in holding.search(crowd, growing)[1] if _reads(holder)]

    def explained(self) -> list[Refused]:
        """Those of which it is known what read the arrays."""
        return [one for one in self._known.values() if one.readers]


def _reads(holder: Holder) -> bool:
    """Whether it is not the array itself that is held, but something on its memory."""
    return holder.kind in ("array", "memoryview") or holder.kind.endswith(" tensor")
