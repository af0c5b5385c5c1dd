"""A session's state: what runs, what waits, who leases it, and its end, which comes when the last of these is over."""

from __future__ import annotations

import contextvars
import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from tenure import sites
from tenure.background import Background
from tenure.model import Site
from tenure.sharing import session_told
from tenure.sharing.session_births import Births
from tenure.sharing.session_queue import Outcome, Pending, Task, Waiting
from tenure.sharing.session_told import Closing, Report

_MANY = 100  # interrupts of one call; what raises so often is not a signal's handler
_runs: contextvars.ContextVar[tuple[Run, ...]] = contextvars.ContextVar("tenure_runs", default=())


class Run:
    """One run, as the code in it knows it; tasks and threads that copied its context know it too."""

    __slots__ = ("core", "counts", "fate", "over", "thread")

    def __init__(self, core: Core) -> None:
        self.core = core
        self.over = False
        self.thread = threading.get_ident()
        self.counts = False  # among those that are going on
        self.fate = "failed"


class Core:
    """The state of a session. Worker threads reference this, not the session, so that an unreferenced session can be closed."""

    def __init__(self, name: str, opened: Site | None, workers: int, bound: int, close: Callable[[], None]) -> None:
        self.name = name
        self.opened = opened
        self.births = Births(name)
        self.closing: Closing | None = None
        self.cancels = False
        self.ended: Future[Report] = Outcome()
        self.leases: dict[int, Site | None] = {}
        # An interrupt can come in a method that is Python code. So no key is missing here, and `pop` removes from `_active`.
        self.fates: Counter[str] = Counter(done=0, failed=0, cancelled=0)
        self._close = close
        self._process = os.getpid()
        self._most = workers
        self._lock = threading.RLock()  # a destructor may come back while it is held
        self._waiting = Waiting(bound, self._lock)
        self._doomed: list[Task] = []  # not waiting any more, and not cancelled yet
        self._active: Counter[int] = Counter()  # runs by thread
        self._current: dict[int, Task] = {}  # what each worker does
        self._threads: list[threading.Thread] = []
        self._idle = self._tokens = 0
        self._ending = False

    # ---------------------------------------------------------------- runs

    def check(self, what: str, lease: int | None, *, queues: bool = True) -> None:
        """Raise `SessionClosed` unless this caller may still run something, or let it wait. The lock is held."""
        closing = self.closing
        if lease is not None and lease not in self.leases and closing is None:
            closing = Closing(None, "this lease was released")
        elif closing is None or (lease in self.leases) or (self._is_inside() and not (queues and self.cancels)):
            return
        raise session_told.late(self.name, self.opened, closing, what, sites.here(), tuple(self.leases.values()))

    def begin(self, run: Run, what: str, lease: int | None) -> None:
        """Something runs in this thread or task until `end`, which must follow, whatever is raised here."""
        with self._lock:
            self.check(what, lease, queues=False)
            self._active[run.thread] += 1
            run.counts = True
        _runs.set((*_runs.get(), run))

    def end(self, run: Run) -> None:
        """Close the session. A second call completes what an interrupt prevented."""
        run.over = True
        _runs.set(tuple(one for one in _runs.get() if one is not run))
        if self._process != os.getpid():
            return  # a child, forked off in the middle of a run
        with self._lock:
            if run.counts:
                self._active[run.thread] -= 1
                run.counts = False
                self.fates[run.fate] += 1
                if not self._active[run.thread]:
                    self._active.pop(run.thread)
        self._end_if_over()

    def submit(self, task: Task) -> None:
        """Let a task wait for a worker; wait for room. In a worker, which would wait for itself, run it instead."""
        with self._lock:
            self.check(task.future.what, task.lease)
            while self._waiting.full:
                if self._is_worker():
                    self._begin()
                    break
                self._wait_for_room()
                self.check(task.future.what, task.lease)
            else:
                self._enqueue(task)
                return
        self._perform(task)

    def _wait_for_room(self) -> None:
        try:
            self._waiting.room.wait()
        except BaseException:  # an interrupt, and the room may have been given to this one
            self._waiting.let_in()
            raise

    def submit_now(self, task: Task, caller: Callable[[], bool]) -> bool:
        """Let a task wait for a worker if there is room; if not, `caller` is called when there may be."""
        with self._lock:
            self.check(task.future.what, task.lease)
            if self._waiting.full:
                self._waiting.call_for_room(caller)
                return False
            self._enqueue(task)
            return True

    def pass_on(self) -> None:
        """Pass a call for room on to the next, if the first does not need it any more."""
        with self._lock:
            self._waiting.let_in()

    def help_out(self, future: Pending) -> None:
        """Run a waiting task in this worker: it might wait for itself otherwise."""
        if not self._is_worker():
            return
        with self._lock:
            found = self._waiting.remove(lambda task: task.future is future)
            if found:
                self._begin()
        for task in found:
            self._perform(task)

    # ---------------------------------------------------------------- leases and the end

    def lease(self, what: str, lease: int | None, site: Site | None) -> int:
        """Add a lease, which allows use of the session after its close."""
        with self._lock:
            self.check(what, lease)
            self._tokens += 1
            self.leases[self._tokens] = site
            return self._tokens

    def release(self, token: int) -> None:
        """Release a lease. If it was the last of a closed session, the session shuts down."""
        with self._lock:
            self.leases.pop(token, None)
        self._end_if_over()

    def close(self, closing: Closing, *, cancel: bool) -> None:
        """Let nobody in any more who is not in, and cancel what waits if told to. The first closing counts.

        An interrupt is raised when everything is done: without that, callers would wait forever for a cancelled run.
        """
        interrupts: list[BaseException] = []
        counts = [0]
        while len(interrupts) < _MANY:
            try:
                self._let_nobody_in(closing, cancel=cancel, counts=counts)
                self._cancel_doomed(closing)
                self._stop_counting(counts)
                self._end_if_over()
                break
            except BaseException as error:  # noqa: BLE001 - a signal's handler may raise anything
                interrupts.append(error)
        if interrupts:
            raise interrupts[0]

    def _let_nobody_in(self, closing: Closing, *, cancel: bool, counts: list[int]) -> None:
        """Close the queue. Like what follows it in `close`, it can be called again after an interrupt."""
        with self._lock:
            if self.closing is None:
                self.closing = closing
            if cancel:
                self.cancels = True
                thread = threading.get_ident()
                if not counts[0]:
                    self._active[thread] += 1  # the session must not end before every future is cancelled
                    counts[0] = 1
                waiting = [task for task in self._waiting.tasks if task.lease not in self.leases]
                self._doomed += [task for task in waiting if not any(task is one for one in self._doomed)]
                self._waiting.remove(lambda task: task.lease not in self.leases)
            self._waiting.wake_all()

    def _cancel_doomed(self, closing: Closing) -> None:
        where = f" at {closing.site.short}" if closing.site else ""
        while self._doomed:
            task = self._doomed[0]
            task.future.cancelled_for(f" when its session was closed{where}, {closing.why}")
            with self._lock:
                if self._doomed and self._doomed[0] is task:
                    self.fates["cancelled"] += 1
                    del self._doomed[0]

    def _stop_counting(self, counts: list[int]) -> None:
        with self._lock:
            if counts[0]:
                thread = threading.get_ident()
                self._active[thread] -= 1
                counts[0] = 0
                if not self._active[thread]:
                    self._active.pop(thread)

    def is_busy_here(self) -> bool:
        """Return whether this thread would wait for itself if it waited for the session to close."""
        return self._active[threading.get_ident()] > 0 or self._is_inside()

    def report(self) -> Report:
        """Return the final report if the session has shut down, else the current one."""
        if self.ended.done():
            return self.ended.result()
        with self._lock:
            going = sum(self._active.values()) + len(self._waiting)
            return self._report(tuple(self.leases.values()), going, ended=False)

    def join(self) -> None:
        """Wait for the worker threads, which have nothing more to do."""
        with self._lock:
            threads = [thread for thread in self._threads if thread.ident is not None]
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def forked(self) -> None:
        """Close the session in a forked child, which has no workers, without touching a lock that was held at the fork."""
        self._lock = threading.RLock()
        running = [task for thread, task in self._current.items() if thread != threading.get_ident()]
        orphans = [*self._waiting.tasks, *self._doomed, *running]
        self._waiting = Waiting(self._waiting.bound, self._lock)
        why = f"this process is a fork of process {self._process}, and the session's threads run only there"
        self.closing = Closing(None, why, "open a session in the child")
        self.cancels = True
        self.leases.clear()
        for task in orphans:
            error = session_told.late(self.name, self.opened, self.closing, task.future.what, None)
            task.future.orphaned(error)
        self.ended = Outcome()
        self.ended.set_result(self._report((), 0, ended=True))

    def _report(self, leased: tuple[Site | None, ...], going: int, *, ended: bool, **more: Any) -> Report:
        closing = self.closing or Closing(None, "still open")
        done, failed, cancelled = (self.fates[fate] for fate in ("done", "failed", "cancelled"))
        return Report(
            self.name, self.opened, closing.site, closing.why, done, failed, cancelled, self.births.escaped, leased, going,
            ended, **more,
        )  # fmt: skip

    def _end_if_over(self) -> None:
        ends_here = False
        try:
            with self._lock:
                closing = self.closing
                over = closing and not self.leases and not self._waiting and not any(self._active.values())
                if closing is None or not over or self._ending or self._process != os.getpid():
                    return
                self._ending = ends_here = True
            try:
                find = self.births.end(closing.site)
            finally:
                self._close()
            self.ended.set_result(self._report((), 0, ended=True, find=find))
        except BaseException as error:
            if not ends_here:
                raise
            with suppress(InvalidStateError):  # an interrupt came after the result
                if _is_main():  # an interrupt, or an error, of this very call: later calls get the report
                    self.ended.set_result(self._report((), 0, ended=True))
                else:  # whoever closes the session gets it
                    self.ended.set_exception(error)
            if _is_main():
                raise
        finally:
            if ends_here:
                with self._lock:
                    self._waiting.wake_all()

    # ---------------------------------------------------------------- threads

    def _begin(self) -> None:
        self._active[threading.get_ident()] += 1

    def _enter(self) -> tuple[contextvars.Token[tuple[Run, ...]], Run]:
        run = Run(self)
        return _runs.set((*_runs.get(), run)), run

    def _finish(self, fate: str, thread: int) -> None:
        if self._process != os.getpid():
            return  # a child, forked off in the middle of a run
        interrupt: BaseException | None = None
        left = [True]
        while left[0]:  # an interrupt may come here, too, and the session would never end
            try:
                self._count(fate, thread, left)
            except BaseException as error:  # noqa: BLE001 - a signal's handler may raise anything
                interrupt = error
        self._end_if_over()
        if interrupt is not None:
            raise interrupt

    def _count(self, fate: str, thread: int, left: list[bool]) -> None:
        with self._lock:
            left[0] = False
            self._active[thread] -= 1
            self.fates[fate] += 1
            if not self._active[thread]:
                self._active.pop(thread)

    def _is_inside(self) -> bool:
        return any(run.core is self and not run.over for run in _runs.get())

    def _is_worker(self) -> bool:
        return threading.current_thread() in self._threads

    def _enqueue(self, task: Task) -> None:
        # An interrupt in `start` leaves one that was not started, or has not run yet.
        self._threads[:] = [thread for thread in self._threads if thread.ident is not None]
        if self._idle <= len(self._waiting) and len(self._threads) < self._most:
            thread = threading.Thread(
                target=self._work, name=f"{self.name} worker {len(self._threads) + 1}", daemon=True
            )
            self._threads.append(thread)
            try:
                _start(thread)
            except RuntimeError:  # no more threads to be had
                self._threads.remove(thread)
                if not self._threads:
                    raise
        self._waiting.put(task)

    def _work(self) -> None:
        with self._lock:
            if not self._is_worker():
                self._threads.append(threading.current_thread())
        while True:
            with self._lock:
                self._idle += 1
                while not self._waiting:
                    if self.ended.done():
                        return
                    self._waiting.work.wait()
                self._idle -= 1
                task = self._waiting.take()
                self._begin()
                self._current[threading.get_ident()] = task
            self._perform(task)
            self._current.pop(threading.get_ident(), None)
            del task  # a worker that waits keeps nothing alive

    def _perform(self, task: Task) -> None:
        """Run a task that counts as begun, in its own context."""
        fate = "cancelled"
        try:
            if task.future.set_running_or_notify_cancel():
                fate = task.context.run(self._settle, task)
        finally:
            self._finish(fate, threading.get_ident())

    def _settle(self, task: Task) -> str:
        token, run = self._enter()
        try:
            try:
                value = task.call()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the future's
                task.future.set_exception(error)
                return "failed"
            task.future.set_result(value)
        except InvalidStateError:  # somebody else has set it
            return "done"
        finally:
            run.over = True
            _runs.reset(token)
        return "done"


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _start(thread: threading.Thread) -> None:
    """Start it. Python's own way to wait for that may break at an interrupt, which comes in the main thread alone."""
    failed: list[BaseException] = []

    def start() -> None:
        try:
            thread.start()
        except RuntimeError as error:
            failed.append(error)

    if threading.current_thread() is not threading.main_thread():
        thread.start()
        return
    Background(start).join()
    if failed:
        raise failed[0]
