"""Recorders that end by themselves, and such that never trouble the program they watch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tenure.frameworks import imports
from tenure.trace import autostart
from tenure.trace.recorder import Recorder


class Limited(Recorder):
    """A recorder that stops after so many steps."""

    def __init__(self, folder: Path, *, steps: int | None = None) -> None:
        super().__init__(folder)
        self._steps = self._left = steps

    def _next(self, number: int | None) -> None:
        super()._next(number)
        if self._left is None:
            return
        self._left -= 1
        if self._left > 0:
            return
        self._left = None
        count = f"{self._steps:,} {'step' if self._steps == 1 else 'steps'}"
        self._rows.partly(("leaks", "peak"), f"recording stopped after {count}, as requested")
        os.environ.pop(autostart.TRACE, None)  # what starts from now on is not recorded either
        self.stop()


class Careful(Limited):
    """A recorder for a program that did not ask for it: what fails is told to `trouble`, and the program goes on."""

    def __init__(self, folder: Path, *, steps: int | None, trouble: Callable[[str], None]) -> None:
        super().__init__(folder, steps=steps)
        self._trouble = trouble

    def _watch(self, name: str) -> None:
        try:
            super()._watch(name)
        except Exception as error:  # noqa: BLE001 - the user's import goes on
            self._trouble(f"{name} is not recorded: {error}")
            self.trouble(f"{name} is not recorded: {error}")
            imports.look_again()
