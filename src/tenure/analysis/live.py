"""What is alive now, while a run goes on: rows in as they come, sums by line and device out at any moment.

It stands on the same pass as the analyses of a finished trace (`scan`), fed batch by batch, so at the end it says what
they say. Memory goes with what is alive, and with how many lines there are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tenure.analysis.scan import NEVER, Vocabulary, engine

COLUMNS = ("time", "event", "buffer", "bytes", "device", "site", "kind", "step")
_PLACES = (0, 1, 2, 3, 4, 5, 6, -1, 7, -1)  # of these in a batch, in the order of the scan's; -1 for what is not needed
_BINS = 1 << 17
_DEVICES = 64  # as the scan has them
_PARTS = 128
_LATE = 1_500_000  # µs: rows come late by less
_RECENT = 32  # steps over which growth is told; in a long run, where a part is many steps, so many parts:
_FEW = 4
_MOST = 0.75  # of those with growth make a line one that rises
_END, _STEP = 2, 5  # as the scan calls these events


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch with numbers for words, and what the numbers mean, as the scan takes them."""

    batch: Any
    maps: tuple[Any, ...]
    step: int | None  # the last one in it
    ends: tuple[int, ...]  # when steps were done


@dataclass(frozen=True, slots=True)
class Line:
    """What is alive of one line on one device; `growth` in bytes a step, None without steps. `site` is as traces tell it."""

    site: str | None
    device: str
    bytes: int
    count: int
    births: int
    growth: float | None
    rises: bool


@dataclass(frozen=True, slots=True)
class Device:
    """Bytes on a device, now and at most; `at` is when that was, in µs since 1970."""

    name: str
    number: int
    bytes: int
    peak: int
    at: int


class Places:
    """Lines and devices in pairs, each with one number for all streams."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str | None, str]] = []
        self.vocabulary = Vocabulary()
        self._numbers: dict[tuple[str | None, str], int] = {}

    def number(self, site: str | None, device: str) -> int:
        """The number of this pair."""
        found = self._numbers.setdefault((site, device), len(self.pairs))
        if found == len(self.pairs):
            self.pairs.append((site, device))
        return found


class Reading:
    """One stream's words as numbers: what its batches pass through on their way into one `Live` or several."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._known: dict[str, Any] = {}
        self._maps: dict[str, array[int]] = {name: array("i") for name in ("event", "device", "kind")}
        self._pairs = array("i")  # by the stream's number of the site, times `_width`, plus its number of the device
        self._width = 4
        self._sites = 0

    def rows(self, batch: Any) -> Rows:
        """A batch as the stream has it, in numbers."""
        import pyarrow as pa

        count = batch.num_rows
        columns = {name: batch.column(name) for name in batch.schema.names}
        for name in ("event", "device", "kind"):
            if name in columns:
                columns[name] = self._learn(name, columns[name])
        columns["site"] = self._paired(columns.get("site"), columns.get("device"), count)
        arrays = [columns.get(name) for name in COLUMNS]
        arrays = [pa.nulls(count, pa.int32()) if one is None else one for one in arrays]
        event, device, kind = (self._maps[name] for name in ("event", "device", "kind"))
        steps = columns.get("step")
        return Rows(
            pa.record_batch(arrays, names=COLUMNS),
            (event, device, self._pairs, kind, array("i")),
            None if steps is None else _largest(steps),
            self._ends(columns["event"], columns["time"]),
        )

    def _learn(self, name: str, column: Any) -> Any:
        words, known = column.dictionary, self._known.get(name)
        if known is None or not words.equals(known):
            self._known[name] = words
            self._maps[name] = self._places.vocabulary.numbers(name, words)
        return column.indices

    def _paired(self, sites: Any, devices: Any, count: int) -> Any:
        """Site and device as one number; without a site it is the one after the last."""
        import pyarrow as pa
        from pyarrow import compute

        words = pa.array([], pa.string()) if sites is None else sites.dictionary
        names = self._known.get("device")
        self._fit(words, 1 if names is None else max(1, len(names)))
        site = pa.nulls(count, pa.int32()) if sites is None else sites.indices
        device = pa.nulls(count, pa.int32()) if devices is None else devices
        base = compute.multiply(site.fill_null(len(words)), self._width)
        found = compute.add(base, device.fill_null(0)).cast(pa.int32())
        for pair in compute.unique(found).to_pylist():
            if not 0 <= pair < len(self._pairs):
                raise ValueError("a string that is not in the string table")
            if self._pairs[pair] < 0:
                at, which = divmod(pair, self._width)
                name = names[which].as_py() if names is not None and which < len(names) else None
                self._pairs[pair] = self._places.number(words[at].as_py() if at < len(words) else None, name or "")
        return found

    def _fit(self, words: Any, devices: int) -> None:
        """Make room for these words. What was known stays so, unless the words are others or more devices need room."""
        known = self._known.get("site")
        while self._width < devices:
            self._width *= 2
            known = None
        if known is None or len(words) < len(known) or not words.slice(0, len(known)).equals(known):
            self._pairs = array("i")
        elif len(words) > len(known):
            del self._pairs[len(known) * self._width :]  # those without a site go behind the new words
        self._known["site"] = words
        self._pairs.extend([-1] * ((len(words) + 1) * self._width - len(self._pairs)))

    def _ends(self, events: Any, times: Any) -> tuple[int, ...]:
        import pyarrow as pa
        from pyarrow import compute

        if _STEP not in self._maps["event"]:
            return ()
        done = compute.equal(events, self._maps["event"].index(_STEP))
        return tuple(times.filter(done).cast(pa.int64()).to_pylist())


class Live:
    """What is alive, of one process or of several together."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._core = engine()
        self._state = self._core.scan(_BINS, -1, False)
        self._latest: dict[int, int] = {}
        self.step: int | None = None
        self.steps = 0  # that were done
        self.known = 0  # up to when the curve is told, in µs since 1970
        self._ends: deque[int] = deque(maxlen=64)

    def join(self, process: int) -> None:
        """A process is there: what happened is not told before it has caught up."""
        self._latest.setdefault(process, 0)

    def feed(self, process: int, rows: Rows) -> None:
        """Take up a batch. Raises ValueError for what no trace holds."""
        # All batches have one number: of who lives through many the scan would keep a list that grows with the run.
        latest = self._core.feed(self._state, process, 0, rows.batch, _PLACES, rows.maps)
        self.step = self.step if rows.step is None else rows.step
        self.steps += len(rows.ends)
        self._ends.extend(rows.ends)
        self.reached(process, latest)

    def reached(self, process: int, time: int) -> None:
        """All rows of that process up to this time have come, but for those that come late."""
        self._latest[process] = max(self._latest.get(process, 0), time)
        until = min(self._latest.values())
        self.known = self.last + 1 if until == NEVER else min(self.last + 1, max(self.first, until - _LATE))
        self._core.settle(self._state, 0, 0, self.known if until == NEVER else max(0, until - _LATE))

    def ended(self, process: int) -> None:
        """That process writes no more: nobody waits for it."""
        self.reached(process, NEVER)

    def forget(self, process: int) -> None:
        """The memory of a process that has ended is gone, whatever it held: of several, it counts no more."""
        import pyarrow as pa

        held = self._core.alive(self._state, process)["buffer"]
        count = len(held) // 4
        columns = {name: pa.nulls(count, pa.int32()) for name in COLUMNS}
        columns["time"] = pa.repeat(pa.scalar(self.last, pa.int64()), count)
        columns["event"] = pa.repeat(pa.scalar(0, pa.int32()), count)
        columns["buffer"] = pa.Array.from_buffers(pa.uint32(), count, [None, pa.py_buffer(held)])
        none: array[int] = array("i")
        batch = pa.record_batch(list(columns.values()), names=list(columns))
        self._core.feed(self._state, process, 0, batch, _PLACES, (array("i", [_END]), none, none, none, none))

    @property
    def nbytes(self) -> int:
        """The bytes alive, on all devices."""
        return sum(array("q", self._core.sites(self._state)["alive"]))

    @property
    def first(self) -> int:
        """When the first row was, in µs since 1970; 0 before there is one."""
        first: int = self._core.facts(self._state)[0]
        return 0 if first == NEVER else first

    @property
    def last(self) -> int:
        """When the last row was."""
        last: int = self._core.facts(self._state)[1]
        return max(0, last)

    @property
    def rate(self) -> float | None:
        """Steps a second of a process, of late."""
        if len(self._ends) < 2 or self._ends[-1] <= self._ends[0]:
            return None
        return (len(self._ends) - 1) * 1e6 / (self._ends[-1] - self._ends[0])

    def lines(self) -> list[Line]:
        """What is alive by line and device, the most bytes first; lines of which nothing is left are left out."""
        told = self._core.sites(self._state)
        births, count, alive = (array("q", told[name]) for name in ("births", "count", "alive"))
        growth = self._growth()
        found = []
        for at, (site, device) in enumerate(self._places.pairs[: len(count)]):
            if count[at]:
                slope, rises = growth.get(at, (None, False))
                found.append(Line(site, device, alive[at], count[at], births[at], slope, rises))
        return sorted(found, key=lambda line: (-line.bytes, str(line.site), line.device))

    def growth(self, lines: Sequence[Line]) -> float | None:
        """Bytes a step that stayed, of late, of these lines together; None without steps."""
        known = [line.growth for line in lines if line.growth is not None]
        return sum(known) if known else None

    def _growth(self) -> dict[int, tuple[float, bool]]:
        """Births less ends in bytes a step over the last parts of the run, by pair, and whether most parts have more.

        The part that is going on is left out, and the first one, in which models are made.
        """
        width, last, _, sums = self._core.growth(self._state)
        now = last // width
        begin = max(1, now - max(_FEW, _RECENT // width))
        if now - begin < 2:
            return {}
        values = array("q", sums)
        found = {}
        for at in range(len(values) // _PARTS):
            parts = values[at * _PARTS + begin : at * _PARTS + now]
            more = sum(part > 0 for part in parts)
            total = sum(parts)
            found[at] = total / (len(parts) * width), total > 0 and more >= _MOST * len(parts)
        return found

    def devices(self, lines: Sequence[Line]) -> list[Device]:
        """The devices in use, as these lines and the curve tell; accelerators first."""
        now: dict[str, int] = {}
        for line in lines:
            now[line.device] = now.get(line.device, 0) + line.bytes
        names = self._places.vocabulary.words.get("device", [])
        peaks = self._core.peaks(self._state, -1)
        found = []
        for number, name in enumerate(names[:_DEVICES]):
            most, at, _ = peaks[number]
            held = now.get(name, 0)
            if most or held:
                found.append(Device(name, number, held, max(most, held), at))
        return sorted(found, key=lambda one: (one.name.lower().startswith(("cpu", "host")), -one.peak, one.name))

    def curve(self, device: int, since: int, until: int, parts: int) -> list[int]:
        """The most bytes in each of so many parts of that time."""
        shift, *columns = self._core.bins(self._state, device)
        index, most, last = (array("q", one) for one in columns)
        found = []
        edges = [since + (until - since) * at // parts for at in range(parts + 1)]
        for begin, end in pairwise(edges):
            low, high = bisect_left(index, begin >> shift), bisect_right(index, max(begin, end - 1) >> shift)
            level = last[low - 1] if low else 0
            found.append(max(level, max(most[low:high], default=0)))
        return found


def _largest(steps: Any) -> int | None:
    from pyarrow import compute

    found: int | None = compute.max(steps).as_py()
    return found
