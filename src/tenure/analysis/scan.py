"""One pass over a trace: the bytes alive over time, who is alive when, and what each line made of it.

Buffers are followed from birth to end as the rows come, so memory goes with what is alive at a time, not with the
trace. The rows are numbers, and the work is done natively where there is a compiler; `scan_twin` is the same in Python.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from tenure.errors import TraceError
from tenure.trace import digest, marks
from tenure.trace.digest import COLUMNS, MAPPED, Kept
from tenure.trace.events import KINDS
from tenure.trace.numbers import Numbers
from tenure.trace.streams import Stream

NEVER = (1 << 63) - 1
LONG = 64  # batches: what lives longer is noted by itself
WINDOW = digest.WINDOW  # or all is done once more with more patience
_KEPT_BYTES = 1 << 27
TYPES = {
    "bytes": "int64", "born": "int64", "last_use": "int64", "ended": "int64", "buffer": "uint32", "batch": "uint32",
    "last_batch": "uint32", "site": "int32", "step": "int32", "scope": "int32", "device": "int8", "kind": "int8",
    "process": "uint32",
}  # fmt: skip


def engine() -> Any:
    """The native scan, or its twin."""
    found = digest.engine()
    if found is None:
        from tenure.analysis import scan_twin

        return scan_twin
    return found


class Vocabulary:
    """Words of all streams by one number each, and for each stream the way from its own numbers to these."""

    def __init__(self) -> None:
        self.words: dict[str, list[str]] = {"kind": list(KINDS)}
        self._numbers: dict[str, dict[str, int]] = {"kind": {word: at for at, word in enumerate(KINDS)}}

    def numbers(self, column: str, texts: Any) -> array[int]:
        """The numbers of these words."""
        if column == "event":
            return digest.events(texts.to_pylist())
        words, known = self.words.setdefault(column, []), self._numbers.setdefault(column, {})
        found = array("i")
        for text in texts.to_pylist():
            number = known.setdefault(text, len(known))
            if number == len(words):
                words.append(text)
            found.append(number)
        return found


class Source:
    """A stream on its way into a scan."""

    def __init__(self, at: int, stream: Stream, vocabulary: Vocabulary) -> None:
        self.at = at
        self.numbers = Numbers(stream)
        self.path = stream.process.path
        self.latest = array("q", bytes(8 * len(self.numbers)))  # the latest time in each batch, once it was fed
        self._places: tuple[int, ...] | None = None  # of the columns, in the batches that are read
        maps = {}
        for column in MAPPED:
            words = self.numbers.words(column)
            maps[column] = [(since, vocabulary.numbers(column, texts)) for since, texts in words] or [(0, array("i"))]
        self._maps = maps
        self._simple = all(len(one) == 1 for one in maps.values())
        self._same = tuple(maps[column][0][1] for column in MAPPED)

    def texts(self, column: str) -> list[str]:
        """The words of a column, in their order."""
        return sorted({text for _, texts in self.numbers.words(column) for text in texts.to_pylist() if text})

    @property
    def tells_uses(self) -> bool:
        """Whether its recorder saw what was used when: JAX's in Python does not, nor do other tools."""
        recorded = map(marks.read_recording, self.texts("name"))
        return self.numbers.stream.process.uses and (
            ("jax", False) not in recorded or "jax" not in self.texts("framework")
        )

    def feed(self, core: Any, scan: Any, chunk: Sequence[tuple[int, Any]]) -> int:
        """Give a chunk to the scan; the latest time in it."""
        latest = -1
        for number, batch in chunk:
            if self._places is None:
                self._places = tuple(batch.schema.get_field_index(name) for name in COLUMNS)
            try:
                time = core.feed(scan, self.at, number, batch, self._places, self._map(number))
            except ValueError as error:
                raise TraceError(f"{self.path} is damaged: it has {error}; record it again") from error
            self.latest[number] = time
            latest = max(latest, time)
        return latest

    def _map(self, batch: int) -> tuple[array[int], ...]:
        if self._simple:
            return self._same
        return tuple(maps[bisect_right(maps, batch, key=lambda one: one[0]) - 1][1] for maps in self._maps.values())


@dataclass
class Scan:
    """What one pass found out. Times are in µs since 1970, devices, sites, kinds and scopes go by `words`."""

    streams: tuple[Stream, ...]
    vocabulary: Vocabulary
    core: Any
    state: Any
    sources: tuple[Source, ...]
    columns: tuple[str, ...]
    kept: dict[int, list[tuple[int, int, bytes]]] = field(repr=False)

    @cached_property
    def facts(self) -> tuple[int, int, int, int, int]:
        """First and last time, births and their bytes, and how many rows came too late."""
        found: tuple[int, int, int, int, int] = self.core.facts(self.state)
        return found

    @cached_property
    def tells_uses(self) -> bool:
        """Whether it is known of all streams what was used when."""
        return all(source.tells_uses for source in self.sources)

    def words(self, column: str) -> list[str]:
        """The words of a column, by number."""
        return self.vocabulary.words.get(column, [])

    def peaks(self, process: int = -1) -> list[tuple[int, int, int]]:
        """The most bytes, their time, and the bytes at the end, of each device; of one stream, or of all together."""
        found: list[tuple[int, int, int]] = self.core.peaks(self.state, process)
        return found[: max(len(self.words("device")), 1)]

    @cached_property
    def steps(self) -> tuple[array[int], ...]:
        """When each step was done, by stream."""
        return tuple(array("q", sorted(array("q", self.core.steps(self.state, one.at)))) for one in self.sources)

    def curve(self, device: int) -> Curve:
        """The bytes alive on a device over time."""
        shift, *columns = self.core.bins(self.state, device)
        index, most, last = (array("q", one) for one in columns)
        return Curve(shift, index, most, last)

    def sites(self) -> Any:
        """For each site the births, their bytes, those still alive, and the drag in bytes x µs, as an Arrow table."""
        told = self.core.sites(self.state)
        return _arrow({name: (values, "float64" if name == "drag" else "int64") for name, values in told.items()})

    def growth(self) -> tuple[int, int, array[int], array[int]]:
        """Steps a part, the last step, and births less ends and their bytes, 128 parts for each site."""
        width, last, count, size = self.core.growth(self.state)
        return width, last, array("q", count), array("q", size)

    def alive(self, moment: int | None = None, sources: Sequence[Source] | None = None) -> Any:
        """The lives at a moment (at the end if none is said), with what became of them, as an Arrow table."""
        import pyarrow as pa

        parts = []
        for source in self.sources if sources is None else sources:
            part = table(self.lives(source, moment))
            parts.append(part.append_column("process", pa.array([source.at] * len(part), pa.uint32())))
        return pa.concat_tables(parts)

    def lives(self, source: Source, moment: int | None) -> dict[str, bytes]:
        """The lives of one stream at a moment, as columns."""
        if moment is not None:
            return self._alive_at(source, moment)
        told: dict[str, bytes] = self.core.alive(self.state, source.at)
        return told

    def fed(self, state: Any, source: Source, begin: int, end: int, more: int) -> Iterator[int]:
        """Feed what a process did from shortly before a moment, until another has passed and so many batches more.

        Gives the rows that were fed, some at a time.
        """
        start = 0
        for batch, latest, lives in self.kept.get(source.at, ()):
            if latest <= begin:
                start, kept = batch, lives
        if start:
            self.core.restore(state, source.at, kept)
        passed = None
        for chunk in source.numbers.chunks(self.columns, range(start, len(source.numbers))):
            latest = source.feed(self.core, state, chunk)
            yield sum(batch.num_rows for _, batch in chunk)
            if passed is None and latest > end + WINDOW:
                passed = chunk[-1][0]
            if passed is not None and chunk[-1][0] >= passed + more:
                return

    def _alive_at(self, source: Source, moment: int) -> dict[str, bytes]:
        """Begin before the moment, and go on until nobody's fate is open but that of those who lived long."""
        state = self.core.scan(0, moment, False)
        for _ in self.fed(state, source, moment, moment, LONG):
            pass
        told: dict[str, bytes] = self.core.alive(state, source.at)
        return self._resolved(source.at, told)

    def _resolved(self, process: int, told: dict[str, bytes]) -> dict[str, bytes]:
        """With the fate of those who lived on for long, or to the end."""
        columns = {name: array(_CODES[TYPES[name]], told[name]) for name in told}
        open_ = {buffer: at for at, buffer in enumerate(columns["buffer"]) if columns["ended"][at] == NEVER}
        if not open_:
            return told
        later = self.core.longs(self.state)
        for fates, own in ((later, array("I", later["process"])), (self.core.alive(self.state, process), None)):
            known = {
                name: array(_CODES[TYPES[name]], fates[name])
                for name in ("buffer", "ended", "last_use", "kind", "last_batch")
            }
            for at, buffer in enumerate(known["buffer"]):
                place = open_.get(buffer) if own is None or own[at] == process else None
                if place is not None:
                    for name in ("ended", "last_use", "kind", "last_batch"):
                        columns[name][place] = known[name][at]
        return {name: values.tobytes() for name, values in columns.items()}


@dataclass(frozen=True)
class Curve:
    """Bytes alive: for each stretch of 2 ** `shift` µs in which they changed, the most, and those at its end."""

    shift: int
    index: array[int]
    most: array[int]
    last: array[int]


_CODES = {"int64": "q", "uint32": "I", "int32": "i", "int8": "b"}


def table(told: dict[str, bytes]) -> Any:
    """Columns of lives as an Arrow table."""
    return _arrow({name: (values, TYPES[name]) for name, values in told.items()})


def _arrow(columns: dict[str, tuple[bytes, str]]) -> Any:
    import pyarrow as pa

    arrays = {}
    for name, (values, kind) in columns.items():
        one = pa.type_for_alias(kind)
        arrays[name] = pa.Array.from_buffers(one, len(values) // (one.bit_width // 8), [None, pa.py_buffer(values)])
    return pa.table(arrays)


def scan(streams: Sequence[Stream], bins: int | None = None) -> Scan:
    """Go over all events of these streams once; the curve has at most so many parts."""
    if len(streams) == 1 and bins is None and (saved := digest.read(streams[0])) is not None:
        return _saved(streams[0], saved)
    window = WINDOW
    while True:
        found = _scan(tuple(streams), window, bins or digest.BINS)
        if not found.facts[4] or window == NEVER:
            return found
        window = window * 64 if window < WINDOW * 64 else NEVER


def _scan(streams: tuple[Stream, ...], window: int, bins: int) -> Scan:
    core = engine()
    vocabulary = Vocabulary()
    sources = tuple(Source(at, stream, vocabulary) for at, stream in enumerate(streams))
    columns = COLUMNS if vocabulary.words.get("scope") else COLUMNS[:-1]
    state = core.scan(bins, -1, len(sources) > 1)
    kept = {source.at: Kept(_KEPT_BYTES) for source in sources}
    times = dict.fromkeys((source.at for source in sources), -1)
    for source, chunk in _in_time(sources, columns, times):
        before = times[source.at]
        latest = source.feed(core, state, chunk)
        times[source.at] = max(before, latest)
        if window < NEVER:
            # What came until the last chunk is complete, but for the rows that come late.
            own = max(before - window, 0)
            core.settle(state, source.at, own, min(own, max(min(times.values()) - window, 0)))
        kept[source.at].offer(chunk[-1][0] + 1, times[source.at], partial(core.keep, state, source.at))
    core.finish(state)
    return Scan(streams, vocabulary, core, state, sources, columns, {at: one.places for at, one in kept.items()})


def _saved(stream: Stream, saved: digest.Saved) -> Scan:
    """The scan that was made while the stream was written."""
    vocabulary = Vocabulary()
    source = Source(0, stream, vocabulary)
    source.latest = saved.latest
    columns = COLUMNS if vocabulary.words.get("scope") else COLUMNS[:-1]
    return Scan((stream,), vocabulary, engine(), saved.state, (source,), columns, {0: saved.kept})


def _in_time(
    sources: Sequence[Source], columns: Sequence[str], times: dict[int, int]
) -> Iterator[tuple[Source, list[tuple[int, Any]]]]:
    """Chunks of all streams, always of the one that is the furthest behind. One that is done waits for nobody."""
    width = max(1, 12 // len(sources))  # what is sorted at a time should stay near the processor
    ahead = 6 if len(sources) == 1 else 1
    waiting = {source.at: source.numbers.chunks(columns, width=width, ahead=ahead) for source in sources}
    while waiting:
        at = min(waiting, key=times.__getitem__)
        chunk = next(waiting[at], None)
        if chunk is None:
            del waiting[at]
            times[at] = NEVER
        else:
            yield sources[at], chunk
