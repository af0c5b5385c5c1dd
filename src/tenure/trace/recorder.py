"""Recording one process: which frameworks are watched, the thread that writes, and what happens in children."""

from __future__ import annotations

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

_LEAST = 0.08  # seconds between two writes
_ROOM = 512 << 20  # bytes that are mapped when Arrow is loaded, and some to work with
_active: Recorder | None = None


def active() -> Recorder | None:
    """The recorder of this process, if one is at work."""
    return _active


class Recorder:
    """Records into a folder from `start` to `stop`. There is one at a time in a process; its children write their own streams."""

    # Seconds from the beginning of one write to the end of the next, which is what a kill may lose. Each write costs
    # the user's program a moment, however little it has to say.
    interval = 0.15

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.step = 0
        self.events = 0
        self.failure = ""
        self.on_watch: list[Callable[[str, Source], None]] = []  # told of each framework that is recorded
        self.before_stop: list[Callable[[], None]] = []
        self._by_user = False  # whether tenure.step() decides, and not what the frameworks' training loops show
        self._lock = threading.RLock()

    def start(self, *, fresh: bool = True, replace: bool = False) -> None:
        """Begin. A `fresh` trace makes its folder, or may `replace` the trace in it; a child process joins its parent's."""
        global _active
        if _active is not None:
            raise TraceError(f"this process is being traced already, into {_active.folder}; end that trace first")
        _check_room()
        import pyarrow  # noqa: F401  here, where an error about it reaches the user, and not in the first write

        if fresh:
            folders.take(self.folder, replace=replace)
        try:
            self._open()
        except OSError as error:
            raise TraceError(f"cannot write a trace to {self.folder}: {error.strerror or error}") from error
        _active = self
        for name in frameworks.RECORDED:
            imports.when_imported(name, self._watch)
        regions.on_scope.append(self._in_scope)
        regions.on_end.append(self._ending)
        atexit.register(self.stop)
        os.register_at_fork(before=self._hold, after_in_parent=self._let_go, after_in_child=self._forked)

    def _open(self) -> None:
        self._sources: dict[str, Source] = {}
        self._teller: Source | None = None  # of steps: one that has rows to write anyway
        self._dictionary = Dictionary()
        self._rows = Rows(self._position, self._stepped)
        self._offset = time.time_ns() - time.monotonic_ns()
        self._stream = writer.Stream(self.folder, f"events-{os.getpid()}", _about(self._offset))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenure-writer", daemon=True)
        self._thread.start()

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
        """Write what is left, and close the stream."""
        global _active
        if _active is not self:
            return
        for call in self.before_stop:
            call()
        _active = None
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        atexit.unregister(self.stop)
        regions.on_scope.remove(self._in_scope)
        regions.on_end.remove(self._ending)
        imports.forget(self._watch)
        for source in self._sources.values() if not self.failure else ():
            source.stop()
        with self._lock:
            self._flush()
            self._guard(self._stream.close)

    def flush(self) -> Path:
        """Write what there is by now, for whoever reads along; the file it went to."""
        with self._lock:
            for source in self._sources.values():
                look = getattr(source, "crowds", None)  # torch's holds the newest back, to have them in order of time
                if look is not None:
                    look()
            self._flush()
        return self._stream.path

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

    def _run(self) -> None:
        wait = self.interval
        while not self._stopping.wait(wait) and not self.failure:
            began = time.monotonic()
            with self._lock:
                self._flush()
            # The next will take as long.
            wait = max(self.interval - 2 * (time.monotonic() - began), _LEAST)

    def _flush(self) -> None:
        self._guard(self._write_all)

    def _write_all(self) -> None:
        for name, source in list(self._sources.items()):
            columns = source.drain()
            if columns is not None:
                found, length = columns.take(self._dictionary, self._since, name)
                self._write(found, length)
                if length and source.tells_steps:
                    self._teller = source
        self._write(*self._rows.take(self._dictionary, self._since))

    def _write(self, columns: dict[str, Any], length: int) -> None:
        if length and not self.failure:
            self.events += length
            self._stream.write(self._dictionary.batch(columns, length))

    def _guard(self, write: Callable[[], None]) -> None:
        """A disk that is full, or a fault of ours, ends the trace, never the script."""
        if self.failure:
            return
        try:
            write()
        except Exception as error:  # noqa: BLE001 - told below, whatever it is
            why = error.strerror or error if isinstance(error, OSError) else repr(error)
            self.failure = f"cannot write to the trace {self.folder} any more: {why}"
            self._stream.abandon()
            for source in self._sources.values():  # nobody reads any more what they would keep
                source.stop()
            console.say(f"{self.failure}; it is kept up to here, the script goes on")

    def _since(self, moment: int) -> int:
        """A moment of the monotonic clock as microseconds since 1970."""
        return (moment + self._offset) // 1000

    def _hold(self) -> None:
        """Before a fork: what the writer's thread is in the middle of would stay so in the child for ever."""
        if _active is self:
            self._lock.acquire()

    def _let_go(self) -> None:
        if _active is self:
            self._lock.release()

    def _forked(self) -> None:
        """In a child made by fork: the parent's stream and thread are not ours."""
        global _active
        if _active is not self:
            return
        sources = self._sources
        self._lock = threading.RLock()
        self._stream.abandon()
        try:
            self._open()
        except OSError:  # the parent, which writes to the same place, says it
            _active = None
            for source in sources.values():
                source.stop()
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


def _about(offset: int) -> dict[str, str]:
    names = {"RANK": "rank", "LOCAL_RANK": "local_rank", "WORLD_SIZE": "world_size"}
    ranks = {word: os.environ[name] for name, word in names.items() if name in os.environ}
    return {
        "version": str(VERSION),
        "pid": str(os.getpid()),
        "parent": str(os.getppid()),
        "command": json.dumps(sys.argv),
        "clock_offset_ns": str(offset),
        **ranks,
    }
