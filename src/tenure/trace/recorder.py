"""Recording one process: which frameworks are watched, the thread that writes, and what happens in children."""

from __future__ import annotations

import _thread
import atexit
import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenure import console, frameworks
from tenure.errors import TraceError, described
from tenure.frameworks import imports
from tenure.frameworks.base import Source
from tenure.lifetime import regions
from tenure.model import size
from tenure.trace import folders, marks, writer
from tenure.trace.events import VERSION, Dictionary
from tenure.trace.rows import Rows
from tenure.trace.source_copies import SourceCopies
from tenure.trace.writing import Writing

_ROOM = 512 << 20  # bytes that are mapped when Arrow is loaded, and some to work with
_active: Recorder | None = None


def active() -> Recorder | None:
    """The recorder of this process, if one is at work."""
    return _active


class Recorder:
    """Records into a folder from `start` to `stop`. There is one at a time in a process; its children write their own streams."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.step = 0
        self.events = 0
        self.failure = ""
        self.on_watch: list[Callable[[str, Source], None]] = []  # told of each framework that is recorded
        self.before_stop: list[Callable[[], None]] = []
        self._by_user = False  # whether tenure.step() decides, and not what the frameworks' training loops show
        self._stopping = threading.RLock()
        self._stopped = False
        self.begun = self._is_child = False  # `begun`: the folder is this trace's
        self._copies = SourceCopies(folder)
        self._writing = Writing(self._write, self._close)
        self._open()

    def start(self, *, fresh: bool = True, replace: bool = False) -> None:
        """Begin. A `fresh` trace makes its folder, or may `replace` the trace in it; a child process joins its parent's."""
        global _active
        if _active is not None:
            raise TraceError(f"this process is being traced already, into {_active.folder}; stop that recording first")
        _check_room()
        import pyarrow  # noqa: F401  here, where an error about it reaches the user, and not in the first write

        if fresh:
            folders.take(self.folder, replace=replace)
        begun = False
        try:
            self._opened()
            self.begun = True
            self._writing.start()
            _active = self
            for name in frameworks.RECORDED:
                imports.when_imported(name, self._watch)
            regions.on_scope.append(self._in_scope)
            regions.on_end.append(self._ending)
            atexit.register(self.stop)
            _follow_forks()
            begun = True
        except OSError as error:
            raise TraceError(f"cannot write a trace to {self.folder}: {error.strerror or error}") from error
        except RuntimeError as error:
            raise TraceError(f"cannot record: {error}") from error
        finally:
            if not begun:  # because of an error, or an interrupt
                self.stop()

    def _open(self) -> None:
        self._sources: dict[str, Source] = {}
        self._teller: Source | None = None  # of steps: one that has rows to write anyway
        self._dictionary = Dictionary()
        self._rows = Rows(self._position, self._stepped)
        self._offset = time.time_ns() - time.monotonic_ns()
        self._stream: writer.Stream | None = None

    def _opened(self) -> writer.Stream:
        """The stream; that of a child made by fork begins with its first rows."""
        if self._stream is None:
            self._stream = writer.Stream(self.folder, f"events-{os.getpid()}", _about(self._offset))
        return self._stream

    def _watch(self, name: str) -> None:
        """Begin to record a framework, which is imported."""
        if _active is not self or name in self._sources:
            return
        source = frameworks.recorder(name)
        try:
            source.start(self._rows)
        except BaseException:
            with suppress(Exception):  # what it had not reached cannot be undone
                source.stop()
            raise
        self._sources[name] = source
        for tell in self.on_watch:
            try:
                tell(name, source)
            except Exception as error:  # noqa: BLE001 - the events are recorded all the same
                self.trouble(f"looking for leaks: {described(error)}")
        version = getattr(sys.modules[name], "__version__", "")
        self._rows.note("mark", marks.recording(name, version, native=source.native))

    def stop(self) -> None:
        """Write what is left, and close the stream. An interrupt meanwhile is raised after that."""
        with self._stopping:  # a second thread waits for the first
            if self._stopped:
                return
            self._stopped = True
            # What could not begin leaves nothing in the folder, which may be another's.
            finish([*self.before_stop, self._unhook, *([self._writing.finish] if self.begun else [])], self.trouble)

    def _unhook(self) -> None:
        global _active
        if _active is self:
            _active = None
        atexit.unregister(self.stop)
        for calls, own in ((regions.on_scope, self._in_scope), (regions.on_end, self._ending)):
            if own in calls:
                calls.remove(own)
        imports.forget(self._watch)
        if not self.failure:
            self._stop_sources()

    def _stop_sources(self) -> None:
        """Take their hooks out in reverse: two of them may have wrapped the same function."""
        for source in reversed(list(self._sources.values())):
            source.stop()

    def flush(self) -> Path:
        """Write what there is by now, for whoever reads along; the file it went to."""
        self._writing.flush()
        return self.folder / f"events-{os.getpid()}.arrows" if self._stream is None else self._stream.path

    def trouble(self, text: str) -> None:
        """Note that something of ours went wrong."""
        self._rows.trouble(text)

    def mark(self, name: str) -> None:
        """Note a moment by name."""
        self._rows.note("mark", name)

    def advance(self, number: int | None = None) -> None:
        """The user says that a step is done: from now on only the user does."""
        self._by_user = True
        self._next(number)

    def _stepped(self, number: int | None) -> None:
        if not self._by_user:
            self._next(number)

    def _next(self, number: int | None) -> None:
        teller = self._teller  # another thread may change it
        if teller is None:
            self._rows.note("step")
        self.step = self.step + 1 if number is None else number
        for source in self._sources.values():
            source.at_step(self.step, tell=source is teller)

    def _in_scope(self, name: str) -> None:
        for source in self._sources.values():
            source.in_scope(name)

    def _ending(self, cause: str) -> None:
        for source in self._sources.values():
            source.ending(cause)

    def _position(self) -> tuple[int, str | None]:
        region = regions.current()
        return self.step, None if region is None else region.name

    def _write(self, *, newest: bool) -> bool:
        """In the writer's thread; whether more can follow."""
        if newest:
            self._guard(self._opened)
            for source in list(self._sources.values()):
                look = getattr(source, "crowds", None)  # torch's holds the newest back, to have them in order of time
                if look is not None:
                    self._guard(look)
        self._guard(self._write_all)
        return not self.failure

    def _close(self) -> None:
        if self._stream is not None:
            self._guard(self._stream.close)

    def _write_all(self) -> None:
        for name, source in self._sources.copy().items():
            columns = source.drain()
            if columns is not None:
                found, length = columns.take(self._dictionary, self._since, name)
                self._write_rows(found, length)
                if length and source.tells_steps:
                    self._teller = source
        self._write_rows(*self._rows.take(self._dictionary, self._since))
        self._copies.add(self._dictionary["stack"].fresh())

    def _write_rows(self, columns: dict[str, Any], length: int) -> None:
        if length and not self.failure:
            self.events += length
            self._opened().write(self._dictionary.batch(columns, length))

    def _guard(self, write: Callable[[], object]) -> None:
        """A disk that is full, or a fault of ours, ends the trace, never the script."""
        if self.failure:
            return
        try:
            write()
        except Exception as error:  # noqa: BLE001 - told below, whatever it is
            why = error.strerror or str(error) if isinstance(error, OSError) else repr(error)
            self.failure = f"cannot write to the trace {self.folder} any more: {why}"
            if self._stream is not None:
                self._stream.abandon(why)
            self._stop_sources()  # nobody reads any more what they would keep
            if (
                not self._is_child or self._stream is not None
            ):  # else the parent, which writes to the same place, says it
                console.say(f"{self.failure}; the trace is kept up to here, and the script continues")

    def _since(self, moment: int) -> int:
        """A moment of the monotonic clock as microseconds since 1970."""
        return (moment + self._offset) // 1000

    def before_fork(self) -> None:
        """Let no thread of ours run: what it is in the middle of would stay so in the child for ever."""
        self._writing.pause()

    def after_fork(self) -> None:
        """In the parent."""
        self._writing.resume()

    def forked(self) -> None:
        """In a child made by fork: the parent's stream and thread are not ours."""
        global _active
        self._stopping = threading.RLock()
        if self._stream is not None:
            self._stream.abandon()
        sources = self._sources
        if _active is not self or self._stopped:  # another thread was about to stop
            finish([source.stop for source in reversed(sources.values())], lambda text: None)
            return
        self._is_child = True
        self._open()
        self._writing = Writing(self._write, self._close)
        try:
            self._writing.start()
        except RuntimeError:
            _active = None
            finish([source.stop for source in reversed(sources.values())], lambda text: None)
            return
        for name, source in sources.items():
            source.forked(self._rows)
            self._sources[name] = source
        # Children of multiprocessing leave by os._exit; only finalizers run before, of those made from now on.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, lambda own: util.Finalize(None, own.stop, exitpriority=-100))


def _check_room() -> None:
    """Raise where Arrow would find no room: it, and what it imports, then ends the process."""
    try:
        mmap.mmap(-1, _ROOM, flags=mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0), prot=0).close()
    except OSError as error:
        raise TraceError(
            f"cannot record: Arrow needs {size(_ROOM)} of address space, and less is left ({error.strerror}); "
            "raise the limit that `ulimit -v` shows"
        ) from error


def finish(steps: list[Callable[[], object]], trouble: Callable[[str], None]) -> None:
    """Do all of these, whatever interrupts them: an interrupt is raised at the end, an error of ours goes to `trouble`.

    A step that an interrupt has cut short is done again, and has to bear that.
    """
    interrupt: BaseException | None = None
    failed: BaseException | None = None  # the step that comes first, when it was done for the first time
    while steps:
        try:
            while steps:
                steps[0]()
                del steps[0]
                interrupt, failed = interrupt or failed, None
        except BaseException as error:  # noqa: BLE001 - a signal's handler may raise anything
            if failed is None:
                failed = error
                continue
            del steps[0]
            if isinstance(error, Exception) and type(error) is type(failed):
                trouble(f"ending the trace: {error!r}")
            else:
                interrupt = interrupt or failed
            failed = None
    if interrupt is not None:
        raise interrupt


# A fork is followed by the recorder that there was before it: another thread may stop it meanwhile.
_forking = threading.local()
_follows = False


def _follow_forks() -> None:
    global _follows
    if not _follows:
        _follows = True
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forked)


def _before_fork() -> None:
    """Python only reports what is raised in here: an interrupt is raised again after the fork."""
    held = _active
    _forking.__dict__.setdefault("held", []).append(held)
    try:
        if held is not None:
            held.before_fork()
    except KeyboardInterrupt:
        _forking.interrupted = True


def _after_fork() -> None:
    held = _held()
    if held is not None:
        held.after_fork()
    if _forking.__dict__.pop("interrupted", False):
        _thread.interrupt_main()


def _forked() -> None:
    held = _held() or _active
    if held is not None:
        held.forked()


def _held() -> Recorder | None:
    found = _forking.__dict__.get("held")  # none if the first recording began between the two hooks
    return found.pop() if found else None


def _command() -> list[str]:
    """Return the program and its arguments. While Python searches for a module (-m), `sys.argv` lacks its name."""
    if sys.argv[:1] != ["-m"] or len(sys.orig_argv) < len(sys.argv):
        return sys.argv
    return [sys.orig_argv[-len(sys.argv)].removeprefix("-m"), *sys.argv[1:]]


def _about(offset: int) -> dict[str, str]:
    names = {"RANK": "rank", "LOCAL_RANK": "local_rank", "WORLD_SIZE": "world_size"}
    ranks = {word: os.environ[name] for name, word in names.items() if name in os.environ}
    return {
        "version": str(VERSION),
        "pid": str(os.getpid()),
        "parent": str(os.getppid()),
        "command": json.dumps(_command()),
        "clock_offset_ns": str(offset),
        **ranks,
    }
