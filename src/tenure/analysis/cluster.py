"""A folder of many ranks as a dataset of Ray Data: each stream is scanned on some node, and the rest is sums.

    trace = tenure.load("/shared/my-trace", cluster=True)
    print(trace.peak())

The analyses are the same, and so are their results; only the scan under them is spread out. The folder must be at the
same place on all nodes, with tenure installed. Needs `pip install "ray[data]"`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.analysis.scan import NEVER, Curve, Scan, Source, Vocabulary, engine, scan, table
from tenure.errors import TraceError, Unsupported
from tenure.trace.reader import files_of, numbered
from tenure.trace.streams import Stream, open_stream

_EXACT = 1 << 24  # parts of a stream's curve on its node
_COARSE = 1 << 14  # and of what it first tells
_WORDS = ("device", "site", "scope")


@dataclass(frozen=True)
class Told:
    """What a node says of one stream. Devices, sites and scopes go by the stream's own words."""

    stream: Stream
    notes: tuple[str, ...]
    words: dict[str, list[str]]
    facts: tuple[int, int, int, int, int]
    peaks: list[tuple[int, int, int]]
    curves: list[Curve]
    sites: dict[str, list[Any]]
    growth: tuple[int, int, array[int], array[int]]
    steps: array[int]
    latest: array[int]


class ClusterScan(Scan):
    """A scan whose streams are on a cluster."""

    def __init__(self, path: Path) -> None:
        files = [str(file) for file in files_of(path)]
        found = [told for told in _each(_tell, files) if told is not None]
        if not found:
            raise TraceError(
                f"{path} contains no events: its processes exited before they could write any; record it again"
            )
        streams = tuple(numbered([told.stream for told in found]))
        vocabulary = Vocabulary()
        sources = tuple(Source(at, stream, vocabulary) for at, stream in enumerate(streams))
        for source, told in zip(sources, found, strict=True):
            source.latest = told.latest
        super().__init__(streams, vocabulary, engine(), None, sources, (), {})
        self.notes = tuple(note for told in found for note in told.notes)
        self._files = [str(stream.process.path) for stream in streams]
        self._told = found
        self._maps = [
            {name: [vocabulary.words[name].index(word) for word in told.words[name]] for name in _WORDS}
            for told in found
        ]
        self.__dict__["facts"] = _facts(found)
        self.__dict__["steps"] = tuple(told.steps for told in found)
        self._tops: dict[int, tuple[int, int, int]] = {}
        self._alive: dict[int | None, list[Any]] = {}

    def _own(self, at: int, device: int) -> int | None:
        """A device by the number it has in a stream."""
        devices = self._maps[at]["device"]
        return devices.index(device) if device in devices else None

    def peaks(self, process: int = -1) -> list[tuple[int, int, int]]:
        """As of any scan."""
        return [self._peak(device, process) for device in range(max(len(self.words("device")), 1))]

    def _peak(self, device: int, process: int) -> tuple[int, int, int]:
        if process >= 0:
            own = self._own(process, device)
            return (0, 0, 0) if own is None else self._told[process].peaks[own]
        if device not in self._tops:
            self._tops[device] = self._top(device)
        return self._tops[device]

    def _curves(self, device: int) -> list[Curve]:
        found = []
        for at, told in enumerate(self._told):
            own = self._own(at, device)
            found.append(Curve(0, array("q"), array("q"), array("q")) if own is None else told.curves[own])
        shift = max(curve.shift for curve in found)
        return [_coarser(curve, shift) for curve in found]

    def curve(self, device: int) -> Curve:
        """As of any scan; where streams overlap, the most is at most what is told."""
        curves = self._curves(device)
        merged = Curve(curves[0].shift, array("q"), array("q"), array("q"))
        for index, _, high, level in _merged(curves):
            merged.index.append(index)
            merged.most.append(high)
            merged.last.append(level)
        return merged

    def _top(self, device: int) -> tuple[int, int, int]:
        """The highest moment of all streams together: where it can be, each stream is asked for every change."""
        curves = self._curves(device)
        parts = list(_merged(curves))
        if not parts:
            return 0, 0, 0
        least = max(level for *_, level in parts)
        chosen = [(index, before) for index, before, high, _ in parts if high >= least]
        shift, name = curves[0].shift, self.words("device")[device]
        exact = [
            one for one in _each(_changes, self._files, shift=shift, parts=[i for i, _ in chosen], device=name) if one
        ]
        changes: dict[int, int] = {}
        for times, levels in exact:
            for time, change in zip(times, levels, strict=True):
                changes[time] = changes.get(time, 0) + change
        best, when, began = 0, 0, dict(chosen)
        level, part = 0, None
        for time in sorted(changes):
            if time >> shift != part:
                part = time >> shift
                level = began[part]
            level += changes[time]
            if level > best:
                best, when = level, time
        return best, when, parts[-1][3]

    def sites(self) -> Any:
        """As of any scan."""
        import pyarrow as pa

        length = len(self.words("site"))
        names = ("births", "bytes", "count", "alive", "last")
        columns = {name: [0] * length for name in names} | {"drag": [0.0] * length}
        for told, maps in zip(self._told, self._maps, strict=True):
            for name, values in told.sites.items():
                column = columns[name]
                for own, value in enumerate(values):
                    at = maps["site"][own]
                    column[at] = max(column[at], value) if name == "last" else column[at] + value
        return pa.table(columns)

    def growth(self) -> tuple[int, int, array[int], array[int]]:
        """As of any scan."""
        width = max(told.growth[0] for told in self._told)
        size = len(self.words("site")) * 128
        count, total = array("q", bytes(8 * size)), array("q", bytes(8 * size))
        for told, maps in zip(self._told, self._maps, strict=True):
            own, _, counts, totals = told.growth
            for at, (one, many) in enumerate(zip(counts, totals, strict=True)):
                place = maps["site"][at // 128] * 128 + at % 128 * own // width
                count[place] += one
                total[place] += many
        return width, max(told.growth[1] for told in self._told), count, total

    def alive(self, moment: int | None = None, sources: Sequence[Source] | None = None) -> Any:
        """As of any scan."""
        import pyarrow as pa

        if moment not in self._alive:
            self._alive[moment] = list(_each(_living, self._files, moment=moment))
        wanted = range(len(self.sources)) if sources is None else [source.at for source in sources]
        return pa.concat_tables([self._renamed(at, self._alive[moment][at]) for at in wanted])

    def _renamed(self, at: int, told: dict[str, bytes]) -> Any:
        import pyarrow as pa
        from pyarrow import compute

        found = table(told)
        for name in _WORDS:
            numbers = found[name]
            known = pa.array(self._maps[at][name], numbers.type)
            there = compute.if_else(compute.less(numbers, 0), None, numbers).cast(pa.int32())
            renamed = compute.fill_null(known.take(there), -1) if len(known) else numbers
            found = found.set_column(found.schema.get_field_index(name), name, renamed)
        return found.append_column("process", pa.array([at] * len(found), pa.uint32()))


def _each(work: Callable[..., Any], files: Sequence[str], **arguments: Any) -> Iterator[Any]:
    """The work for each stream, as a dataset of Ray; the results in the order of the files."""
    try:
        import ray.data
    except ImportError as error:
        raise Unsupported('reading a trace on a cluster needs Ray: pip install "ray[data]"') from error

    def row(one: dict[str, Any]) -> dict[str, Any]:
        return {"at": one["at"], "told": work(one["file"], **arguments)}

    items = [{"at": at, "file": file} for at, file in enumerate(files)]
    data = ray.data.from_items(items, override_num_blocks=len(items)).map(row)
    yield from (one["told"] for one in sorted(data.take_all(), key=lambda one: one["at"]))


def _scanned(file: str) -> tuple[Scan | None, list[str]]:
    notes: list[str] = []
    stream = open_stream(Path(file), notes)
    return (None if stream is None else scan([stream], _EXACT)), notes


def _tell(file: str) -> Told | None:
    found, notes = _scanned(file)
    if found is None:
        return None
    devices = range(len(found.words("device")))
    return Told(
        stream=found.streams[0],
        notes=tuple(notes),
        words={name: found.words(name) for name in _WORDS},
        facts=found.facts,
        peaks=found.peaks(),
        curves=[_smaller(found.curve(device)) for device in devices],
        sites=found.sites().to_pydict(),
        growth=found.growth(),
        steps=found.steps[0],
        latest=found.sources[0].latest,
    )


def _changes(file: str, *, shift: int, parts: Sequence[int], device: str) -> tuple[array[int], array[int]] | None:
    """The moments within these parts of the run at which the bytes on a device changed, and by how much."""
    found, _ = _scanned(file)
    if found is None or device not in found.words("device"):
        return None
    curve, wanted = found.curve(found.words("device").index(device)), set(parts)
    if curve.shift:
        raise TraceError(
            f"{file} has more than {_EXACT:,} changes in memory; record its ranks separately, or fewer steps"
        )
    times, changes, before = array("q"), array("q"), 0
    for time, level in zip(curve.index, curve.last, strict=True):
        if time >> shift in wanted:
            times.append(time)
            changes.append(level - before)
        before = level
    return times, changes


def _living(file: str, *, moment: int | None) -> dict[str, bytes]:
    found, _ = _scanned(file)
    assert found is not None
    return found.lives(found.sources[0], moment)


def _smaller(curve: Curve) -> Curve:
    shift = curve.shift
    while len(curve.index) > _COARSE:
        shift += 1
        curve = _coarser(curve, shift)
    return curve


def _coarser(curve: Curve, shift: int) -> Curve:
    if curve.shift == shift:
        return curve
    wide = Curve(shift, array("q"), array("q"), array("q"))
    for index, most, last in zip(curve.index, curve.most, curve.last, strict=True):
        place = index >> (shift - curve.shift)
        if wide.index and wide.index[-1] == place:
            wide.most[-1] = max(wide.most[-1], most)
            wide.last[-1] = last
        else:
            wide.index.append(place)
            wide.most.append(most)
            wide.last.append(last)
    return wide


def _merged(curves: Sequence[Curve]) -> Iterator[tuple[int, int, int, int]]:
    """For each part in which something changed: its number, the level before it, the most it can be, the level after."""
    order = sorted((index, at, place) for at, curve in enumerate(curves) for place, index in enumerate(curve.index))
    levels = [0] * len(curves)
    total = high = before = 0
    now: int | None = None
    for index, at, place in [*order, (NEVER, -1, 0)]:
        if index != now:
            if now is not None:
                yield now, before, high if curves[0].shift else total, total
            now, before, high = index, total, total
        if at >= 0:
            curve = curves[at]
            high += max(curve.most[place] - levels[at], 0)
            total += curve.last[place] - levels[at]
            levels[at] = curve.last[place]


def _facts(found: Sequence[Told]) -> tuple[int, int, int, int, int]:
    parts = list(zip(*(told.facts for told in found), strict=True))
    return min(parts[0]), max(parts[1]), sum(parts[2]), sum(parts[3]), sum(parts[4])
