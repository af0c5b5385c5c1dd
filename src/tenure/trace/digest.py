"""What the analyses begin with, made while the trace is written: the first pass over its events is done when it ends.

A stream's digest lies beside it. It counts only for the very stream it was made of, whole; for any other (a process
was killed, a file was mended) the events are read. Where the native scan is not compiled yet there is none.
"""

from __future__ import annotations

import itertools
import json
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tenure import native, untrusted
from tenure.trace.events import KINDS, beside
from tenure.trace.streams import Stream

# What a scan reads of the events; the last is read only where it says something: each column is up to a tenth of the time.
COLUMNS = ("time", "event", "buffer", "bytes", "device", "site", "kind", "last_use", "step", "scope")
MAPPED = ("event", "device", "site", "kind", "scope")
BINS = 1 << 17
WINDOW = 1_500_000  # µs: rows come late by less
_EVENTS = {"birth": 0, "use": 1, "end": 2, "kind": 3, "step": 5}
_OTHER = 4
_PLACES = 32  # to begin from, a process
_HEAVY = 24 << 20  # bytes in the process that records: what needs more is read from the events
_LOOK = 64  # batches
_TOGETHER = 8
_FEW = 2_000_000  # events, which are read as quickly
_LARGEST = 1 << 26  # bytes of a digest, unpacked
_FORMAT = "tenure digest 1"


def engine(*, compiled: bool = False) -> Any:
    """The native scan, or None."""
    return native.load("tenure_trace_scan", "trace_scan.cpp", flags=["-std=c++20"], compiled=compiled)


def events(texts: Sequence[str]) -> array[int]:
    """What happened, by the numbers of the scan."""
    return array("i", (_EVENTS.get(text, _OTHER) for text in texts))


class Kept:
    """Who was alive at some batches of a stream, so that a look at a moment need not begin at the beginning."""

    def __init__(self, most: int) -> None:
        self.places: list[tuple[int, int, bytes]] = []
        self._most = most  # bytes
        self._every = 1
        self._count = 0

    def offer(self, batch: int, latest: int, lives: Callable[[], bytes]) -> None:
        """Before this batch nothing was later than `latest`."""
        self._count += 1
        if self._count % self._every:
            return
        self.places.append((batch, latest, lives()))
        while len(self.places) > _PLACES or sum(len(place[2]) for place in self.places) > self._most:
            self.places = self.places[1::2]
            self._every *= 2


class Digest:
    """The scan of a stream that is being written."""

    def __init__(self) -> None:
        self._core = engine(compiled=True)
        self._state = self._core.scan(BINS, -1, False) if self._core else None
        self._pending: list[Any] = []
        self._latest = array("q")
        self._rows = 0
        self._high = self._before = -1  # the latest time, and that without the last batch
        self._kept = Kept(_HEAVY // 3)
        self._kinds = {word: at for at, word in enumerate(KINDS)}
        self._maps: dict[str, array[int]] = {name: array("i") for name in MAPPED}

    def add(self, batch: Any) -> None:
        """Take up what was written; some at a time, for the first of them costs more than those that follow."""
        if self._core is not None:
            self._pending.append(batch)
            if len(self._pending) >= _TOGETHER:
                self._take_up()

    def _take_up(self) -> None:
        for batch in self._pending:
            self._feed(batch)
        self._pending.clear()
        if self._core is not None:  # each time, all that waits is gone through
            until = max(self._before - WINDOW, 0)
            self._core.settle(self._state, 0, until, until)

    def _feed(self, batch: Any) -> None:
        if self._core is None:
            return
        number = len(self._latest)
        places = tuple(batch.schema.get_field_index(name) for name in COLUMNS)
        maps = tuple(self._map(name, batch.column(name).dictionary) for name in MAPPED)
        try:
            latest = self._core.feed(self._state, 0, number, batch, places, maps)
        except ValueError:  # what a reader will say better
            self._core = self._state = None
            return
        self._before, self._high = self._high, max(self._high, latest)
        self._latest.append(latest)
        self._rows += batch.num_rows
        self._kept.offer(number + 1, self._high, partial(self._core.keep, self._state, 0))
        if not number % _LOOK and self._core.weight(self._state) > _HEAVY:
            self._core = self._state = None

    def _map(self, column: str, texts: Any) -> array[int]:
        """From a stream's own numbers to those of the scan; the words of a stream only ever grow."""
        known = self._maps[column]
        if len(known) < len(texts):
            fresh = texts.slice(len(known)).to_pylist()
            if column == "event":
                known.extend(events(fresh))
            elif column == "kind":
                known.extend(self._kinds.setdefault(text, len(self._kinds)) for text in fresh)
            else:
                known.extend(range(len(known), len(texts)))
        return known

    def save(self, path: Path, size: int, sum_: int) -> None:
        """Write it beside the stream, which ended with this size and sum. Raises OSError if the disk will not take it."""
        self._take_up()
        if self._core is None or self._rows < _FEW:
            return
        self._core.finish(self._state)
        if self._core.facts(self._state)[4]:
            return  # rows came too late: a reader is more patient
        import pyarrow as pa

        parts = [self._core.pack(self._state), self._latest.tobytes(), *(lives for _, _, lives in self._kept.places)]
        small = pa.compress(b"".join(parts), "zstd", asbytes=True)
        about = {
            "format": _FORMAT,
            "size": size,
            "sum": sum_,
            "rows": self._rows,
            "batches": len(self._latest),
            "kept": [[batch, latest] for batch, latest, _ in self._kept.places],
            "parts": [len(part) for part in parts],
            "check": zlib.crc32(small),
        }
        scratch = beside(path, ".tmp")
        try:
            with scratch.open("wb") as file:
                file.write(json.dumps(about).encode() + b"\n")
                file.write(small)
            scratch.replace(beside(path, ".digest"))
        finally:
            scratch.unlink(missing_ok=True)


@dataclass(frozen=True)
class Saved:
    """A scan as it was when its stream ended."""

    state: Any
    latest: array[int]
    kept: list[tuple[int, int, bytes]]


def read(stream: Stream) -> Saved | None:
    """The digest of a stream, if there is one and it is of this very stream; what is wrong with it does not matter."""
    import pyarrow as pa

    path = stream.process.path
    core = engine()
    if core is None or not stream.process.complete:
        return None
    try:
        head, _, small = untrusted.content(beside(path, ".digest"), _LARGEST).partition(b"\n")
        about = untrusted.parsed(head)
        size, sum_ = beside(path, ".sums").read_bytes().split(b"\n")[-2].split()
        same = (about["format"], about["size"], f"{about['sum']:08x}", about["rows"], about["batches"]) == (
            _FORMAT,
            path.stat().st_size,
            sum_.decode(),
            stream.seen.rows,
            stream.batches,
        )
        if not same or int(size) != about["size"] or zlib.crc32(small) != about["check"]:
            return None
        lengths = [int(length) for length in about["parts"]]
        if min(lengths) < 0 or sum(lengths) > _LARGEST:
            return None
        whole = memoryview(pa.decompress(small, sum(lengths), "zstd", asbytes=True))
        ends = list(itertools.accumulate(lengths))
        parts = [bytes(whole[end - length : end]) for length, end in zip(lengths, ends, strict=True)]
        latest = array("q", parts[1])
        kept = [(int(batch), int(time), lives) for (batch, time), lives in zip(about["kept"], parts[2:], strict=True)]
        if len(latest) != stream.batches or not all(0 <= batch <= stream.batches for batch, _, _ in kept):
            return None
        return Saved(core.unpack(parts[0]), latest, kept)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        MemoryError,
        OverflowError,
        pa.ArrowException,
    ):
        return None
