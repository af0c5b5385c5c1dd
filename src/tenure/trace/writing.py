"""When a recorder's rows are written: every few moments, in a thread of its own, which a fork finds at rest."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from tenure.background import Background

# Seconds from the beginning of one write to the end of the next, which is what a kill may lose. Each write costs
# the user's program a moment, however little it has to say.
INTERVAL = 0.15
_LEAST = 0.08  # seconds between two writes
_PATIENCE = 2.0  # seconds that a fork waits for a write, which a disk may halt
_SOON = 0.1


class Write(Protocol):
    """What writes."""

    def __call__(self, *, newest: bool) -> bool:
        """Write what there is; whether more can follow."""


class Writing:
    """Calls `write` in its thread, and `close` after the last time.

    Nothing is written in the program's own threads: an interrupt there would cut a batch in two.
    """

    def __init__(self, write: Write, close: Callable[[], None]) -> None:
        self._write = write
        self._close = close
        self._wake = threading.Event()
        self._guard = _thread.allocate_lock()  # of what follows; never held for long
        self._thread: Background | None = None
        self._pauses = 0  # forks that are under way
        self._last = self._over = False
        self._due = 0.0  # on the monotonic clock: when to write next
        self._alone = True  # without a thread: who waits for a write does it
        self._waiting: list[_thread.LockType] = []  # who waits for a write; released after it

    def start(self) -> None:
        """Begin. Raises RuntimeError where no thread can be started."""
        with self._guard:
            self._due = time.monotonic() + INTERVAL
            self._begin()

    def _begin(self) -> None:
        if self._thread is None and not self._over and not self._pauses:
            self._wake.clear()
            self._alone = True
            self._thread = Background(self._run, signals=False)
            self._alone = False

    def flush(self) -> None:
        """Write now, also what is held back to be sorted, and wait for it."""
        done = _thread.allocate_lock()
        done.acquire()
        self._waiting.append(done)
        self._wake.set()
        while not self._over and not self._is_own() and not done.acquire(timeout=_SOON):
            if self._alone:
                self._round()

    def finish(self) -> None:
        """Write for the last time, close, and wait for that; once more does no harm."""
        self._last = True
        self._wake.set()
        while not self._over and not self._is_own():
            thread = self._thread
            if self._alone:
                self._round()
            elif thread is not None:
                thread.join(_SOON)
            else:  # another thread forks, and will start it again
                time.sleep(0.001)

    def pause(self) -> None:
        """End the thread, as long as a fork is under way. A write that does not return is not waited for."""
        if self._is_own():
            return
        with self._guard:
            self._pauses += 1
            thread = self._thread
        self._wake.set()
        if thread is not None and thread.join(_PATIENCE):
            thread.wait_until_gone()

    def resume(self) -> None:
        """A fork is done."""
        if self._is_own():
            return
        with self._guard:
            self._pauses = max(self._pauses - 1, 0)
            with suppress(RuntimeError):  # then what comes is written at the end
                self._begin()

    def _is_own(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_me()

    def _run(self) -> None:
        try:
            while not self._over:
                self._wake.wait(max(self._due - time.monotonic(), 0))
                self._wake.clear()
                began = time.monotonic()
                with self._guard:
                    # Where forks follow each other closely, one of them has to wait for the write that is due.
                    if self._pauses and began < self._due:
                        self._thread = None
                        return
                self._round()
                # The next will take as long.
                now = time.monotonic()
                self._due = now + max(INTERVAL - 2 * (now - began), _LEAST)
        except BaseException:
            self._alone = True
            raise

    def _round(self) -> None:
        waiting, self._waiting = self._waiting, []
        last = self._last
        try:
            more = self._write(newest=bool(waiting))
            if last:
                self._close()
            self._over = last or not more
        finally:
            for done in waiting:
                done.release()
