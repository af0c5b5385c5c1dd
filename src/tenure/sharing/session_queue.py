"""The waiting runs of a session: futures with their outcome, and a bounded queue with back-pressure."""

from __future__ import annotations

import contextvars
import operator
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED
from dataclasses import dataclass
from typing import Any


class Condition(threading.Condition):
    """A condition that keeps its lock right when an interrupt comes: Python's may leave it locked for good, or unlocked.

    Its `with` calls the lock's own methods, which are not interrupted between locking and the block.
    """

    __enter__ = property(operator.attrgetter("_lock.__enter__"))
    __exit__ = property(operator.attrgetter("_lock.__exit__"))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a notification."""
        try:
            return super().wait(timeout)
        except BaseException:
            if not self._is_owned():  # type: ignore[attr-defined]
                self.acquire()
            raise


class Outcome(Future[Any]):
    """A future that an interrupt does not break."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = Condition()


class Pending(Outcome):
    """A waiting run: a future of `concurrent.futures`. `fate` is its outcome as text."""

    def __init__(self, what: str, session: str, help_out: Callable[[Pending], None]) -> None:
        super().__init__()
        self.what = what
        self.label = f"{what} in session {session!r}"
        self.reason = ""
        self._help_out = help_out

    @property
    def fate(self) -> str:
        """One of: waiting, running, done, failed (with what), cancelled (by whom)."""
        if self.cancelled():
            return f"cancelled{self.reason or ' by its holder'}"
        if not self.done():
            return "running" if self.running() else "waiting"
        error = super().exception()
        return f"failed with {type(error).__name__}" if error is not None else "done"

    def result(self, timeout: float | None = None) -> Any:
        """Return the result of the run, or raise its exception. If a run of the same session waits for it, run it here."""
        try:
            if not self.done():
                self._help_out(self)
            return super().result(timeout)
        except CancelledError:
            if not self.cancelled():
                raise  # the run's own
            raise CancelledError(f"{self.label} was {self.fate}") from None
        finally:
            del self  # an error's traceback would lead back to the error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception of the run, or None."""
        try:
            if not self.done():
                self._help_out(self)
            return super().exception(timeout)
        except CancelledError:
            if not self.cancelled():
                raise
            raise CancelledError(f"{self.label} was {self.fate}") from None
        finally:
            del self

    def cancelled_for(self, reason: str) -> None:
        """Cancel it for good, and let everybody know who waits for it. A second time does what an interrupt prevented."""
        if not self.cancelled():
            self.reason = reason
        if self.cancel():
            with self._condition:  # another thread may close the session, too
                if self._state == CANCELLED:
                    self.set_running_or_notify_cancel()

    def orphaned(self, error: BaseException) -> None:
        """Fail the run in a forked child, which has no thread to run it. A lock that was held at the fork stays locked."""
        self._condition = Condition()
        if not self.done():
            self.set_exception(error)

    def __repr__(self) -> str:
        return f"<{self.label}: {self.fate}>"


@dataclass(slots=True)
class Task:
    """A run that waits: what to call, in which context, for which lease, and the future for its result."""

    future: Pending
    call: Callable[[], Any]
    context: contextvars.Context
    lease: int | None = None


class Waiting:
    """The tasks that wait, at most `bound`. Its methods are called with the session's lock held."""

    def __init__(self, bound: int, lock: Any) -> None:
        self.bound = bound
        self.room = Condition(lock)  # submitters wait for it
        self.work = Condition(lock)  # workers wait for it
        self.tasks: deque[Task] = deque()
        self._callers: deque[Callable[[], bool]] = deque()  # how tasks of event loops wait for room

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def full(self) -> bool:
        """Return whether a submitter has to wait."""
        return len(self.tasks) >= self.bound

    def put(self, task: Task) -> None:
        """Add a task."""
        self.tasks.append(task)
        self.work.notify()

    def take(self) -> Task:
        """Remove and return the oldest task."""
        task = self.tasks.popleft()
        self.let_in()
        return task

    def remove(self, wanted: Callable[[Task], bool]) -> list[Task]:
        """Remove and return the runs that match, out of order."""
        found = [task for task in self.tasks if wanted(task)]
        self.tasks = deque(task for task in self.tasks if not wanted(task))
        for _ in found:
            self.let_in()
        return found

    def call_for_room(self, caller: Callable[[], bool]) -> None:
        """Have this called once there may be room; it says whether anybody still waits for it."""
        self._callers.append(caller)

    def let_in(self) -> None:
        """Wake one who waits for room: a thread, and a task of an event loop; each looks again."""
        self.room.notify()
        while self._callers:
            if self._callers.popleft()():
                break

    def wake_all(self) -> None:
        """Everybody looks again: the session is closing."""
        self.room.notify_all()
        self.work.notify_all()
        while self._callers:
            self._callers.popleft()()
