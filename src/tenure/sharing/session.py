"""`Session`: runs of functions and TensorFlow graphs, until the session is closed."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import contextvars
import functools
import inspect
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from tenure import sites
from tenure.errors import ScopeError, Unsupported
from tenure.model import Site
from tenure.sharing import session_graph, session_process, session_told
from tenure.sharing.session_core import Core, Run
from tenure.sharing.session_queue import Pending, Task
from tenure.sharing.session_told import Closing, Report

_MOST_WORKERS = 1024


class _Door:
    """The methods that a session and its leases share."""

    _core: Core
    _graph: session_graph.Graph | None
    _token: int | None = None

    @property
    def name(self) -> str:
        """The name in reports and errors."""
        return self._core.name

    def run(self, what: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function in this thread and return its result. With a graph, also run fetches: `run(fetches, feed_dict)`."""
        label = session_told.named(what)
        call = self._call(what, args, kwargs)
        run = Run(self._core)
        try:
            self._core.begin(run, label, self._valid(label))
            result = self._core.births.call(call)
            run.fate = "done"
            return result
        finally:
            # An interrupt here is raised when the run is over: else the session would never end.
            try:
                self._core.end(run)
            except BaseException:
                self._core.end(run)
                raise

    def submit(self, what: Any, /, *args: Any, **kwargs: Any) -> Pending:
        """Run a function in a worker thread, and return a `concurrent.futures.Future`. Wait while the queue is full."""
        task = self._task(what, args, kwargs)
        self._core.submit(task)
        return task.future

    async def arun(self, what: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function without blocking the event loop: a coroutine function in this task, any other in a worker thread."""
        if inspect.iscoroutinefunction(what):
            label = session_told.named(what)
            run = Run(self._core)
            try:
                self._core.begin(run, label, self._valid(label))
                result = await self._core.births.wait(functools.partial(what, *args, **kwargs))
                run.fate = "done"
                return result
            finally:
                try:
                    self._core.end(run)
                except BaseException:  # an interrupt, as in `run`
                    self._core.end(run)
                    raise
        task = self._task(what, args, kwargs)
        await _admitted(self._core, task)
        return await asyncio.wrap_future(task.future)

    def lease(self) -> Lease:
        """Return a lease: a right to use the session after `close()`. The session ends when its last lease is released."""
        here = sites.here()
        return Lease(self._core, self._graph, self._core.lease("lease()", self._valid("lease()"), here), here)

    def _valid(self, what: str) -> int | None:
        """Return the token that permits a use of the session."""
        return self._token

    def _task(self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Task:
        label = session_told.named(what)
        token = self._valid(label)
        call = functools.partial(self._core.births.call, self._call(what, args, kwargs))
        future = Pending(label, self.name, self._core.help_out)
        return Task(future, call, contextvars.copy_context(), token)

    def _call(self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
        if inspect.iscoroutinefunction(what):
            told = session_told.named(what)
            raise Unsupported(f"{told} is a coroutine function: write `await session.arun({told[:-2]}, …)`")
        if self._graph is not None:
            return self._graph.call(what, args, kwargs)
        if not callable(what):
            raise session_graph.refusal(what)
        return functools.partial(what, *args, **kwargs)


class Session(_Door):
    """A session that runs functions and TensorFlow graphs until it is closed, and then releases what they left.

    A tensor that a run creates and does not return belongs to the session, and is released when the session closes.
    `close()`, or the exit of the `with` block, waits for queued runs (after an exception it cancels them). It reports
    what was created and what remains. Any use after that raises `SessionClosed`, which shows where the session was opened,
    where and why it was closed, and which call was rejected. `lease()` keeps the session usable for a helper, thread or
    task that runs longer.

    Example:
        with tenure.Session(workers=2) as session:
            loss = session.run(evaluate, batch)
            futures = [session.submit(predict, x) for x in batches]

        async with tenure.Session() as session:
            await session.arun(fetch, url)

    Arguments:
        graph: A `tf.Graph`. `run(fetches, feed_dict)` then runs it, with variables initialised for this session.
        workers: The number of threads for submitted runs. They start when first needed.
        queue: The number of submitted runs that may wait; after that, `submit` waits.
        name: The name in reports and errors. Default: the source line that opens the session.
    """

    def __init__(self, graph: Any = None, *, workers: int = 1, queue: int = 64, name: str | None = None) -> None:
        _check_number("workers", workers, _MOST_WORKERS)
        _check_number("queue", queue, 1 << 30)
        if name is not None and not isinstance(name, str):
            raise Unsupported(f"a session's name is a str, not {type(name).__name__}")
        opened = sites.here()
        name = name or (opened.short if opened else "session")
        self._graph = session_graph.Graph(graph) if graph is not None else None
        close = self._graph.close if self._graph is not None else _nothing
        self._core = Core(name, opened, workers, queue, close)
        self._entered = False
        session_process.watch(self._core)
        # A session that nobody holds any more is closed; in a thread, for destructors run anywhere.
        weakref.finalize(self, _abandon, self._core).atexit = False

    @property
    def closed(self) -> bool:
        """True if the session was closed. Leases may still use it."""
        return self._core.closing is not None

    def close(self, *, cancel: bool = False) -> Report:
        """Close the session: wait for queued runs, or `cancel` them, and return the report.

        While leases are open, or when a run of this session calls it, the session ends after those; the report shows that.
        A second call returns the final report.
        """
        return self._close(Closing(sites.here(), "by close()"), cancel=cancel)

    def __enter__(self) -> Self:
        with self._core._lock:
            self._core.check("its `with` block", None)
            if self._entered:
                raise ScopeError(f"session {self.name!r} was entered already: use one `with` block per session")
            self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close(_left(sites.here(), error), cancel=error is not None)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._core.close(_left(sites.here(), error), cancel=error is not None)
        await _settled_async(self._core)

    def __repr__(self) -> str:
        return f"<tenure.Session {self.name!r}, {'closed' if self.closed else 'open'}>"

    def _close(self, closing: Closing, *, cancel: bool) -> Report:
        self._core.close(closing, cancel=cancel)
        _settled(self._core)
        return self._core.report()


class Lease(_Door):
    """A right to use a session after it was closed, until `release()` or the exit of the lease's `with` block."""

    def __init__(self, core: Core, graph: session_graph.Graph | None, token: int, taken: Site | None) -> None:
        self._core = core
        self._graph = graph
        self._token = token
        self._taken = taken
        self._released: Closing | None = None
        self._finalizer = weakref.finalize(self, _in_thread, core.release, token)
        self._finalizer.atexit = False

    @property
    def active(self) -> bool:
        """True until the lease is released."""
        return self._released is None

    def release(self) -> None:
        """Release the lease. If the session was closed and this is its last lease, the session shuts down. A second call has no effect."""
        self._give_back("by release()")
        _settled(self._core)

    def __enter__(self) -> Self:
        self._valid("its `with` block")
        return self

    def __exit__(self, *exc: object) -> None:
        self._give_back("by the exit of its `with` block")
        _settled(self._core)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        self._give_back("by the exit of its `with` block")
        await _settled_async(self._core)

    def __repr__(self) -> str:
        return f"<lease of session {self.name!r}, {'active' if self.active else 'released'}>"

    def _give_back(self, why: str) -> None:
        if self._finalizer.detach() and self._token is not None:
            self._released = Closing(sites.here(), f"the lease was released {why}")
            self._core.release(self._token)

    def _valid(self, what: str) -> int | None:
        if self._released is not None:
            raise session_told.late(self.name, self._core.opened, self._released, what, sites.here())
        return self._token


async def _admitted(core: Core, task: Task) -> None:
    """Put a task into the queue; wait for a free place without blocking the event loop."""
    loop = asyncio.get_running_loop()
    while True:
        room: asyncio.Future[None] = loop.create_future()

        def caller(room: asyncio.Future[None] = room) -> bool:
            try:
                loop.call_soon_threadsafe(_open_room, room)
            except RuntimeError:  # the loop is closed
                return False
            return not room.cancelled()

        if core.submit_now(task, caller):
            return
        try:
            await room
        except asyncio.CancelledError:
            core.pass_on()
            raise


def _open_room(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


def _settled(core: Core) -> None:
    """Wait until a closed session has finished, unless it waits for this thread itself or for a lease."""
    if core.closing is not None and not core.leases and not core.is_busy_here():
        core.ended.result()
        core.join()


async def _settled_async(core: Core) -> None:
    if core.closing is not None and not core.leases and not core.is_busy_here():
        await asyncio.shield(asyncio.wrap_future(core.ended))
        core.join()


def _left(site: Site | None, error: BaseException | None) -> Closing:
    why = (
        "by the exit of its `with` block"
        if error is None
        else f"by {type(error).__name__}, which left its `with` block"
    )
    return Closing(site, why, "move it into the `with` block that opens the session")


def _abandon(core: Core) -> None:
    if not core.ended.done():
        _in_thread(lambda: core.close(Closing(None, "no reference to it is left"), cancel=False))


def _in_thread(function: Callable[..., None], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # no threads any more: the interpreter is ending, and the session with it
        _thread.start_new_thread(function, args)


def _nothing() -> None:
    """Do nothing: a session without a graph has nothing else to close."""


def _check_number(name: str, value: object, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise Unsupported(f"{name} is a number from 1 to {most}, not {value!r:.40}")
