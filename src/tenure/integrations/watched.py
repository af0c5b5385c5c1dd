"""A recording that can be asked, at any moment, what is alive: by birthplace and by amount."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tenure import frameworks
from tenure.frameworks.base import Crowd, Growing, Source
from tenure.integrations.meter import Meter
from tenure.trace import autostart, recorder
from tenure.trace.limited import Careful

Birthplace = tuple[str, str]  # framework and stack
Amounts = dict[Birthplace, tuple[int, int]]  # how many, and their bytes


class _Unhurried(Careful):
    """A recorder that nobody reads along with, and whose trace is gone with the process: it has no haste to write."""

    interval = 1.0


class Watched:
    """The recording of this process: one that begins now, into `folder`, or the one that is going on already."""

    def __init__(self, folder: Path, trouble: Callable[[str], None]) -> None:
        self._growing: dict[str, Growing] = {}
        autostart.wake()
        active = recorder.active()
        self._own = active is None
        if active is None:
            active = _Unhurried(folder, steps=None, trouble=trouble)
            active.on_watch.append(self._enlist)
            active.start()
        else:
            for name, source in active._sources.copy().items():
                self._enlist(name, source)
            active.on_watch.append(self._enlist)
        self.recorder = active
        self.meter = Meter(active)

    def _enlist(self, name: str, source: Source) -> None:
        self._growing[name] = frameworks.grower(name, source)

    def crowds(self) -> list[tuple[Crowd, Growing]]:
        """Return the live buffers by allocation site. The list keeps some of them alive."""
        return [(crowd, growing) for growing in list(self._growing.values()) for crowd in growing.buffers()]

    def alive(self) -> Amounts:
        """Return the count and the bytes of each allocation site."""
        return {(crowd.framework, crowd.stack): (crowd.count, crowd.nbytes) for crowd, _ in self.crowds()}

    def stop(self) -> None:
        """Ask no more, and record no more if nobody did before."""
        self.meter.stop()
        if self._enlist in self.recorder.on_watch:
            self.recorder.on_watch.remove(self._enlist)
        for growing in self._growing.values() if self._own else ():
            growing.stop()
        if self._own:
            self.recorder.stop()


def grown(before: Amounts, after: Amounts) -> Amounts:
    """Return what has grown: the count and the bytes. Memory without a known allocation site belongs to the framework."""
    found = {}
    for place, (count, nbytes) in after.items():
        known, held = before.get(place, (0, 0))
        if place[1] and count > known and nbytes > held:
            found[place] = count - known, nbytes - held
    return found
