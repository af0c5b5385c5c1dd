"""The progress of a run, in the terminal's title: its lines belong to the script."""

from __future__ import annotations

import atexit
import os
import time
from contextlib import suppress

from tenure import console
from tenure.background import Background

_EVERY = 1.0  # seconds
_KEEP, _BACK = "\033[22;2t", "\033[23;2t"  # the terminal remembers the title it had


def show() -> None:
    """Show the progress in the terminal's title until this process exits."""
    console.write(_KEEP)
    atexit.register(_end, os.getpid())
    began = time.monotonic()
    with suppress(RuntimeError):  # where no thread can be started, there is none to show it
        Background(lambda: _run(began), signals=False)


def _run(start: float) -> None:
    while True:
        time.sleep(_EVERY)
        console.write(f"\033]2;tenure: {line(time.monotonic() - start)}\a")


def line(seconds: float) -> str:
    """Return the progress as text: `12 steps, 40,113 events, 0:07`."""
    from tenure.trace import recorder

    minutes, rest = divmod(int(seconds), 60)
    active = recorder.active()
    counts = () if active is None else ((active.step, "step"), (active.events, "event"))
    done = "".join(f"{count:,} {noun}{'' if count == 1 else 's'}, " for count, noun in counts if count)
    return f"{done}{minutes}:{rest:02}"


def _end(pid: int) -> None:
    if os.getpid() == pid:
        console.write(_BACK)
