"""Tensors that a session's runs create: results leave with their run, the others belong to the session until it is closed."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from tenure.lifetime import regions
from tenure.lifetime.regions import Region
from tenure.lifetime.scope import Scope, end
from tenure.model import Remains, Site


class Births:
    """The tensors that a session owns: born in a run, alive when it was over, and not part of its result."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.escaped = 0
        self._lock = threading.Lock()
        self._region = Region(name, None)
        # Open, so that `keep` finds what it owns, but no code runs in it: each run has a region of its own.
        contextvars.copy_context().run(regions.enter, self._region, None, births=False)

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function; the tensors in what it returns go to the scope around the call, if there is one."""
        scope = Scope(self.name, None).__enter__()
        try:
            value = function()
            self._hand_out(scope, value)
            return value
        finally:
            self._take(scope)

    async def wait(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Do the same for a coroutine."""
        scope = Scope(self.name, None).__enter__()
        try:
            value = await function()
            self._hand_out(scope, value)
            return value
        finally:
            self._take(scope)

    def _hand_out(self, scope: Scope, value: Any) -> None:
        region = scope._region
        assert region is not None
        before = len(region.moved)
        scope.hand_out(value)
        with self._lock:
            self.escaped += len(region.moved) - before

    def _take(self, scope: Scope) -> None:
        region = scope._region
        assert region is not None
        with self._lock:
            births = self._region.births
            if births is not None and len(births) > self._region.limit:  # most of them may be dead by now
                births[:] = self._region.records()
                self._region.moved.clear()
                self._region.limit = max(256, 2 * len(births))
            self._region.give([record for record in regions.leave(region) if record[0]() is not None])

    def end(self, where: Site | None) -> Callable[[], Remains]:
        """End what is left; the result, called, says what became of it."""
        report = end(regions.leave(self._region), self.name, "session close", lambda: where)
        return report or Remains
