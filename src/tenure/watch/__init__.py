"""Looking, while a program runs, for what becomes more and more, and for who holds it: the suspects of leaks.

Functions end and their variables with them, so holders can only be found while the program is at work. The looks come
further and further apart, by events: what they cost does not grow with the run.
"""

from __future__ import annotations

from tenure.trace.recorder import Recorder
from tenure.watch.looking import Watch


def begin(recorder: Recorder) -> None:
    """Watch a process that is being recorded, until its recorder stops."""
    Watch(recorder).start()
