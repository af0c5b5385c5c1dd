"""A trace while it is made: the streams of all its processes, those that join later too, and what they tell beside."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from tenure import untrusted
from tenure.errors import TraceError
from tenure.trace import reader, running, told
from tenure.trace.streams import failure
from tenure.trace.tail import Tail

_QUIET = 2.0  # seconds without rows, after which it is asked whether the process is still there
_LARGEST = 1 << 26  # bytes of one file beside the streams

State = Literal["waiting", "running", "ended", "gone", "damaged"]


class Followed:
    """One process on its way.

    `note` says what is wrong with its stream, if something is; `failure` why the process could write no more.
    """

    def __init__(self, number: int, tail: Tail) -> None:
        self.number = number
        self.tail = tail
        self.note = ""
        self.failure = ""
        self.state: State = "waiting"
        self.heard = time.monotonic()  # when rows came last
        self._asked = False

    @property
    def quiet(self) -> float:
        """Seconds since rows came."""
        return time.monotonic() - self.heard

    @property
    def pid(self) -> int:
        """The process; until it has written its schema, by the name of its stream."""
        process = self.tail.process
        return _pid(self.tail.path) if process is None else process.pid

    def read(self) -> list[Any]:
        """The batches that came since."""
        if self.note or self.tail.complete:
            return []
        try:
            found = self.tail.read()
        except TraceError as error:
            self.note, self.state = str(error), "damaged"
            return []
        if found:
            self.heard = time.monotonic()
        self.state = self._judged(fresh=bool(found))
        return found

    def _judged(self, *, fresh: bool) -> State:
        if self.tail.complete:
            return "ended"
        # Rows that come prove that somebody writes, here or on another machine; else it is asked now and then.
        if self.tail.behind or (fresh and self._asked):
            return "running"
        if self._asked and self.quiet < _QUIET:
            return self.state
        self._asked = True
        if not running.is_writing(self.pid, self.tail.path):
            self.failure = failure(self.tail.path)
            return "gone"
        return "waiting" if self.tail.process is None else "running"


class Following:
    """The trace at a place: its folder, or the stream of one process."""

    def __init__(self, place: Path, columns: Sequence[str]) -> None:
        self.place = place
        self.folder = place if place.is_dir() else place.parent
        self._columns = columns
        self.followed: list[Followed] = []
        self.restarted = 0  # how often another run took the folder
        if not (place.is_dir() and (place / "meta.json").exists()):  # which a run makes before it records
            reader.files_of(place)

    @property
    def behind(self) -> int:
        """Bytes that are written and not read yet."""
        return sum(one.tail.behind for one in self.followed if not one.note)

    @property
    def over(self) -> bool:
        """Whether nobody writes any more."""
        if self.followed:
            return all(one.state in ("ended", "gone", "damaged") and not one.tail.behind for one in self.followed)
        return not self._is_awaited()

    def close(self) -> None:
        """Let go of all files."""
        for one in self.followed:
            one.tail.close()
        self.followed = []

    def read(self) -> Iterator[tuple[Followed, list[Any]]]:
        """What came since, process by process."""
        self._meet()
        for one in self.followed:
            yield one, one.read()

    def _meet(self) -> None:
        """See who has joined; and whether another run has the folder now."""
        try:
            paths = sorted(self.place.glob("*.arrows")) if self.place.is_dir() else [self.place]
            there = {path: path.stat().st_ino for path in paths}
        except OSError:  # being made anew just now
            return
        if any(there.get(one.tail.path) != one.tail.inode for one in self.followed):
            self.close()
            self.restarted += 1
        known = {one.tail.path for one in self.followed}
        for path in paths:
            if path not in known:
                try:
                    self.followed.append(Followed(len(self.followed), Tail(path, self._columns)))
                except FileNotFoundError:  # being made anew just now
                    continue
                except OSError as error:
                    raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error

    def _is_awaited(self) -> bool:
        """Whether the process that made the folder is still there, and may begin to record."""
        try:
            pid = untrusted.document(self.folder / "meta.json", _LARGEST)["pid"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return isinstance(pid, int) and running.exists(pid)


class Lines:
    """What processes tell beside their streams, line by line as it comes."""

    def __init__(self, folder: Path, what: told.Kind) -> None:
        self._folder = folder
        self._what = what
        self._done: dict[Path, int] = {}

    def read(self) -> list[tuple[int, dict[str, Any]]]:
        """The new lines, each with its process. One that is damaged is passed over, an unfinished one waits."""
        found = []
        for path in sorted(self._folder.glob(f"{self._what}-*.jsonl")):
            try:
                fresh = self._fresh(path)
            except OSError:  # the folder is being made anew
                continue
            for line in fresh:
                try:
                    value = untrusted.parsed(line)
                except ValueError:
                    continue
                if isinstance(value, dict):
                    found.append((_pid(path), value))
        return found

    def _fresh(self, path: Path) -> list[bytes]:
        done, length = self._done.get(path, 0), path.stat().st_size
        if length < done:
            done = 0  # of another run
        if length == done or length > _LARGEST:
            return []
        with path.open("rb") as file:
            file.seek(done)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._done[path] = done + len(whole)
        return whole.splitlines()


def _pid(path: Path) -> int:
    """The process that a file is of, by its name."""
    number = path.stem.partition("-")[2].partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else -1
