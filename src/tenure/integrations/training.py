"""A training run, as the callbacks of trainers follow it: steps, what is alive and how it grows, the findings at its end."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenure.errors import TraceError
from tenure.findings import Finding
from tenure.integrations.meter import Meter
from tenure.trace import autostart, recorder
from tenure.trace.api import Tracing, step, trace
from tenure.traces import Trace, load
from tenure.views.formats import full
from tenure.views.formats.text import is_coloured


class Training:
    """One run. Where a recording goes on already it is joined, and its own report has the findings."""

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, quiet: bool = False, replace: bool = False
    ) -> None:
        self._path = path
        self._replace = replace
        self._quiet = quiet
        self._tracing: Tracing | None = None
        self._meter: Meter | None = None
        self._steps = 0
        self.findings: list[Finding] = []
        self.trace: Trace | None = None

    def begin(self) -> None:
        """Start recording when the training begins."""
        if self._meter is not None:
            return
        autostart.wake()
        if recorder.active() is None:
            self._tracing = trace(self._path, replace=self._replace).__enter__()
        active = recorder.active()
        if active is not None:
            active._by_user = True  # the trainer knows its steps, and tells them when each is done
            self._meter = Meter(active)
            self._window = self._meter.open()
            self._steps = 0

    def stepped(self, number: int) -> None:
        """Count the step with this number."""
        self._steps += 1
        step(number)

    def numbers(self) -> dict[str, int | float]:
        """Return what to log: bytes alive now, the maximum since the last time, and the growth per step since then.

        Of the accelerator that has the most, or of the host's memory where there is none.
        """
        meter = self._meter
        if meter is None or recorder.active() is None:
            return {}
        window, self._window = self._window, meter.open()
        meter.close(window)
        alive = meter.read()
        device = window.device
        if device is None:
            return {}
        now, before = alive[device], window.spans[device].first
        told = {
            "tenure/bytes": now,
            "tenure/peak_bytes": window.spans[device].most,
            "tenure/growth_per_step": (now - before) / max(1, self._steps),
        }
        self._steps = 0
        return told

    def end(self) -> None:
        """Stop recording after the training, and print the findings, unless another recording was joined."""
        if self._meter is not None:
            self._meter.stop()
            self._meter = None
        tracing, self._tracing = self._tracing, None
        if tracing is None:
            return
        tracing.__exit__(None, None, None)
        self._conclude(tracing.path)

    def _conclude(self, folder: Path) -> None:
        try:
            self.trace = load(folder)
            self.findings = self.trace.faults()
        except TraceError as error:  # nothing was recorded, or not all
            self._say(f"tenure: {error}\n")
            return
        text = full.render(self.findings, colour=sys.stderr is not None and is_coloured(sys.stderr))
        self._say(f"{text}tenure: the trace of this training is in {folder}; see it with: tenure report {folder}\n")

    def _say(self, text: str) -> None:
        if not self._quiet:
            with suppress(
                AttributeError, OSError, ValueError
            ):  # it may be closed, or its disk full: the training goes on
                sys.stderr.write(text)


class Callback:
    """The part that the callbacks of all trainers share: `trace` and `findings`, known after the training."""

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, quiet: bool = False, replace: bool = False
    ) -> None:
        """Record into the folder `path` (default: `tenure-<script>`), which must be new or empty.

        With `replace`, an older trace there is removed first. `quiet` prints nothing at the end.
        """
        super().__init__()
        self._tenure = Training(path, quiet=quiet, replace=replace)

    @property
    def trace(self) -> Trace | None:
        """The trace of the training; None while it runs, and if it joined another recording."""
        return self._tenure.trace

    @property
    def findings(self) -> list[Finding]:
        """The findings."""
        return self._tenure.findings


def made(follower: type, module: str, *bases: str) -> type:
    """Return the callback class of a trainer: `follower` on the first of these bases that exists.

    The trainer is the user's; it is imported when its callback is asked for.
    """
    for base in bases:
        home, _, name = base.rpartition(".")
        try:
            found: Any = getattr(importlib.import_module(home), name)
        except ImportError:
            continue
        about = {"__module__": module, "__qualname__": "TenureCallback", "__doc__": follower.__doc__}
        return type("TenureCallback", (follower, found), about)
    packages = " or ".join(dict.fromkeys(base.partition(".")[0] for base in bases))
    raise ImportError(f"{module} needs {packages}, which is not installed")
