"""The recording of one test that the fixture `tenure_trace` returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure.trace.api import Tracing, trace
from tenure.traces import Trace, load

if TYPE_CHECKING:
    from tenure.integrations.testing.watch import TestWatch


class TestTrace:
    """A trace that begins with the test and ends with `load()`, or with the test."""

    __test__ = False  # no test of pytest's

    def __init__(self, folder: Path, watch: Any) -> None:
        self._watch: TestWatch | None = watch
        self._loaded: Trace | None = None
        if self._watch is not None:
            self._watch.pause()  # a process has one recording at a time
        self._tracing: Tracing | None = trace(folder).__enter__()
        self.path = self._tracing.path

    def stop(self) -> None:
        """End the recording."""
        if self._tracing is None:
            return
        self._tracing.__exit__(None, None, None)
        self._tracing = None
        if self._watch is not None:
            self._watch.resume()

    def load(self) -> Trace:
        """End the recording, and open it."""
        self.stop()
        if self._loaded is None:
            self._loaded = load(self.path)
        return self._loaded
