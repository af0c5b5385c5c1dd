"""Threads of tenure's own, in the user's process, which the user's program does not see."""

from __future__ import annotations

import _thread
import os
import signal
import time
from collections.abc import Callable

# What a fault in the thread itself raises; blocked, it would end the process without a word.
_FAULTS = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"}
_GONE = 0.01  # seconds to wait until the system has removed a thread that has ended


class Background:
    """A running thread that is not in `threading.enumerate()`: a program may join all threads that it finds there.

    Nothing that it runs may ask for `threading.current_thread()`, which would put it there. As with daemon threads, the
    interpreter does not wait for it when it exits. Raises RuntimeError where no thread can be started.

    `signals`: whether it may receive the program's signals, and the threads that it starts. A program that blocks one in
    its own threads, to take it with `sigwait`, would else be ended by it: the system gives it to any thread that does not.
    """

    def __init__(self, run: Callable[[], None], *, signals: bool = True) -> None:
        self._run = run
        self._running = _thread.allocate_lock()
        self._running.acquire()
        self._native = 0
        self.ident = self._start() if signals else _without_signals(self._start)

    def _start(self) -> int:
        return _thread.start_new_thread(self._work, ())

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


def _without_signals(start: Callable[[], int]) -> int:
    """Start a thread that inherits a mask of all signals."""
    if not hasattr(signal, "pthread_sigmask"):
        return start()
    blocked = {number for number in signal.valid_signals() if getattr(number, "name", "") not in _FAULTS}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        return start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
