"""Threads of tenure's own, in the user's process, which the user's program does not see."""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable

_GONE = 0.01  # seconds to wait until the system has removed a thread that has ended


class Background:
    """A running thread that is not in `threading.enumerate()`: a program may join all threads that it finds there.

    Nothing that it runs may ask for `threading.current_thread()`, which would put it there. As with daemon threads, the
    interpreter does not wait for it when it exits. Raises RuntimeError where no thread can be started.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._running = _thread.allocate_lock()
        self._running.acquire()
        self._native = 0
        self.ident = _thread.start_new_thread(self._work, ())

    def _work(self) -> None:
        self._native = _thread.get_native_id()
        try:
            self._run()
        finally:
            self._running.release()

    def is_me(self) -> bool:
        """Whether this is the calling thread."""
        return _thread.get_ident() == self.ident

    def join(self, timeout: float = -1) -> bool:
        """Wait until it has ended, at most so many seconds; whether it has."""
        if not self._running.acquire(timeout=timeout):
            return False
        self._running.release()
        return True

    def wait_until_gone(self) -> None:
        """After `join`: until the system does not count it any more, for Python warns where others run at a fork."""
        until = time.monotonic() + _GONE
        while os.path.exists(f"/proc/self/task/{self._native}") and time.monotonic() < until:  # noqa: PTH110 - the quickest way
            time.sleep(0.0001)
