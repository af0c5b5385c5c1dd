"""The current and the highest memory during a recording, read from the stream that it writes."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tenure.trace.events import integers
from tenure.trace.recorder import Recorder
from tenure.trace.tail import Tail

_OPTIONS = {"index_in": "SetLookupOptions", "is_in": "SetLookupOptions", "sort_indices": "SortOptions"}
_COLUMNS = ("time", "event", "buffer", "bytes", "device")


@dataclass
class Span:
    """Bytes alive on a device in a window: when it began, at most, and when it was last looked at.

    `when` is the moment of the most, if something happened in the window.
    """

    first: int
    most: int
    last: int
    when: int | None = None


@dataclass
class Window:
    """A time of the run, from `start` to `end`; what was alive in it, by device. Times are microseconds since 1970."""

    start: int
    end: int | None = None
    spans: dict[str, Span] = field(default_factory=dict)

    @property
    def device(self) -> str | None:
        """The one that matters: the accelerator with the most, or, where there is none, the host's memory."""
        found = [(not _is_host(name), span.most, name) for name, span in self.spans.items() if span.most]
        return max(found)[2] if found else None


def rise(parts: Sequence[Window]) -> tuple[str | None, int]:
    """Return the rise above the start of the first window, without what happened between the windows.

    On the accelerator where it rose most, or, where it did on none, in the host's memory, which each framework names in
    its own way.
    """
    most: dict[str, int] = {}
    base: dict[str, int] = {}
    for part in parts:
        for device, span in part.spans.items():
            before = base.get(device, 0)
            most[device] = max(most.get(device, 0), before + span.most - span.first)
            base[device] = before + span.last - span.first
    found = [(not _is_host(device), height, device) for device, height in most.items() if height > 0]
    return (max(found)[2], max(found)[1]) if found else (None, 0)


class Meter:
    """Reads along with a recorder, from the beginning of its stream. To read costs; to open and close windows does not."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._tail = Tail(recorder.flush(), _COLUMNS)
        self._alive: dict[str, int] = {}  # bytes by device
        self._known: Any = None  # a table of the living: buffer, bytes, device
        self._windows: list[Window] = []

    def open(self) -> Window:
        """Open a window that begins now."""
        window = Window(_now())
        self._windows.append(window)
        return window

    def close(self, window: Window) -> None:
        """Close the window. Its content is known after the next `read`."""
        window.end = _now()

    def drop(self, window: Window) -> None:
        """Nobody will ask for it."""
        self._windows.remove(window)

    def read(self) -> dict[str, int]:
        """Read all that was recorded up to now; the bytes alive by device."""
        self._recorder.flush()
        while True:
            batches = self._tail.read()
            if batches:
                self._fold(batches)
            if not self._tail.behind:
                break
        for window in self._windows:
            for device, nbytes in self._alive.items():  # where nothing happened, it is as it was
                window.spans.setdefault(device, Span(nbytes, nbytes, nbytes))
        self._windows = [window for window in self._windows if window.end is None]
        return dict(self._alive)

    def stop(self) -> None:
        """Let go of the file."""
        self._tail.close()

    def _fold(self, batches: list[Any]) -> None:
        import pyarrow as pa

        columns = [pa.chunked_array([batch.column("time").view(pa.int64()) for batch in batches])]
        columns += [pa.chunked_array([batch.column(name) for batch in batches]) for name in ("buffer", "bytes")]
        columns.append(pa.chunked_array([batch.column("device").indices for batch in batches]))
        table = pa.Table.from_arrays(columns, ["time", "buffer", "bytes", "device"])
        events = pa.chunked_array([batch.column("event").indices for batch in batches])
        words = batches[-1].column("event").dictionary.to_pylist()  # which only grow
        born, ends = (
            _compute("filter", table, _compute("equal", events, _number(words.index(name), pa.int32())))
            if name in words
            else table.slice(0, 0)
            for name in ("birth", "end")
        )
        if len(born) or len(ends):  # or there were only notes and steps
            self._count(batches[-1].column("device").dictionary, born, ends)

    def _count(self, words: Any, born: Any, ends: Any) -> None:
        import pyarrow as pa

        fresh = born.select(["buffer", "bytes", "device"])
        known = (fresh if self._known is None else pa.concat_tables([self._known, fresh])).combine_chunks()
        # An end tells the buffer's number only. (Not `join`: to load what it stands on takes longer than all the rest.)
        own, gone = known["buffer"], ends["buffer"].combine_chunks()
        at = _compute("index_in", gone, value_set=own.combine_chunks())
        ended = _compute("take", known, at)
        times = pa.chunked_array([*born["time"].chunks, *ends["time"].chunks])
        amounts = pa.chunked_array([*born["bytes"].chunks, *_compute("negate", ended["bytes"]).chunks])
        devices = pa.chunked_array([*born["device"].chunks, *ended["device"].chunks])
        left = _compute("invert", _compute("is_in", own, value_set=gone))
        self._known = _compute("filter", known, left).combine_chunks()
        changes = pa.Table.from_arrays([times, amounts, devices], ["time", "bytes", "device"])
        changes = _compute("take", changes, _compute("sort_indices", changes, sort_keys=[("time", "ascending")]))
        for number in _compute("unique", changes["device"]).to_pylist():
            if number is not None:
                one = _compute("filter", changes, _compute("equal", changes["device"], _number(number, pa.int32())))
                self._look(words[number].as_py(), one["time"].combine_chunks(), one["bytes"].combine_chunks())

    def _look(self, device: str, times: Any, changes: Any) -> None:
        before = self._alive.get(device, 0)
        moments, levels = _integers(times), array("q", accumulate(_integers(changes), initial=before))[1:]
        self._alive[device] = levels[-1]
        for window in self._windows:
            first = bisect_left(moments, window.start)
            last = len(moments) if window.end is None else bisect_right(moments, window.end)
            if first == len(moments):
                continue  # it began after all of these
            start = levels[first - 1] if first else before
            span = window.spans.setdefault(device, Span(start, start, start))
            if last > first:
                inside = levels[first:last]
                most = max(inside)
                if most > span.most:
                    span.most, span.when = most, moments[first + inside.index(most)]
                span.last = levels[last - 1]


def _compute(name: str, *values: Any, **options: Any) -> Any:
    """Compute without `pyarrow.compute`, whose import takes as long as a hundred small tests."""
    from pyarrow import _compute as arrow

    return arrow.call_function(name, list(values), getattr(arrow, _OPTIONS[name])(**options) if options else None)


def _number(value: int, kind: Any) -> Any:
    """Return a number that Arrow can compare without importing pandas."""
    return integers([value], kind)[0]


def _integers(column: Any) -> array[int]:
    """Return a column of 64-bit numbers without nulls as an array: reading single Arrow values is slow."""
    found = array("q")
    found.frombytes(column.buffers()[1][8 * column.offset : 8 * (column.offset + len(column))])
    return found


def _now() -> int:
    return time.time_ns() // 1000


def _is_host(device: str) -> bool:
    """As the analysis of peaks has it, which takes longer to import than all that is here."""
    return device.lower().partition(":")[0] in ("cpu", "host")
