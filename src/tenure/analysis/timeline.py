"""Who was alive at many moments of a run: what a picture of it is drawn from.

A second pass, with the moments known: each life adds its bytes to its line, kind, scope and process, from the first
moment that saw it to the last. So the sums are exact at every moment shown, and memory goes with moments x rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.analysis.scan import LONG, NEVER, Scan, table
from tenure.errors import Unsupported

PARTS = 750  # of the time shown; each has its highest moment, and its last
_BINS = 1 << 16
_ROWS = 300  # lines of source, all devices together
_NAMES = 48  # scopes, and processes
_MIX = 0x9E3779B97F4A7C15
SAMPLE = 64  # lives of a line
_AT_ONCE = 200_000  # rows


@dataclass
class Sums:
    """A number for each row and moment. Rows are named by their device and what they are of: -1 is not known, None the rest."""

    rows: list[tuple[int, int | None]]
    width: int
    values: array[int] = field(repr=False)

    def row(self, at: int) -> list[int]:
        """The numbers of a row, moment by moment."""
        total, found = 0, []
        for change in self.values[at * self.width : (at + 1) * self.width - 1]:
            total += change
            found.append(total)
        return found


@dataclass
class Timeline:
    """The moments (µs since 1970), and what was alive at each: by site with counts and what was past its last use."""

    moments: array[int]
    sites: Sums
    counts: Sums
    past: Sums
    kinds: Sums
    scopes: Sums
    processes: Sums
    lives: Any  # a sample of each site's, as an Arrow table


def timeline(scan: Scan, since: int | None = None, until: int | None = None, parts: int = PARTS) -> Timeline:
    """What was alive from a moment to another; the whole run if none are said."""
    if scan.state is None:
        raise Unsupported("a chart needs the trace itself: load it without cluster=True")
    first, last = scan.facts[:2]
    begin = first if since is None else max(first, since)
    end = last if until is None else min(last, until)
    narrow = (begin, end) != (first, last)
    devices = [at for at, (most, _, _) in enumerate(scan.peaks()) if most]
    state = _near(scan, begin, end) if narrow else scan.state
    moments = _moments(scan, state, devices, begin, end, max(24, parts // max(len(devices), 1)))
    drawing = _Drawing(scan, devices, moments)
    for lives in _lives(scan, begin, end):
        drawing.add(lives)
    return drawing.done()


def _moments(scan: Scan, state: Any, devices: Sequence[int], begin: int, end: int, limit: int) -> array[int]:
    """Of each part of the time the highest moment of each device, and its last change: between them nothing is lost.

    Where nothing happens there are no parts, so what happens quickly is seen too.
    """
    chosen = {begin, end}
    for device in devices:
        shift, index, most, _ = scan.core.bins(state, device)
        columns = (array("q", most), array("q", scan.core.moments(state, device)), array("q", index))
        # Of each part: the most, when that was, and the moment after which nothing changes in it.
        parts = [
            (high, when, min(end, ((place + 1) << shift) - 1))
            for high, when, place in zip(*columns, strict=True)
            if begin <= when <= end
        ]
        width = 1 << shift
        while len(parts) > limit:
            width *= 2
            parts = list(_wider(parts, width))
        chosen.update(when for _, when, _ in parts)
        chosen.update(last for *_, last in parts)
    return array("q", sorted(chosen))


def _wider(parts: Iterable[tuple[int, int, int]], width: int) -> Iterator[tuple[int, int, int]]:
    before: tuple[int, int, int] | None = None
    for high, when, last in parts:
        if before is None or before[1] // width != when // width:
            if before is not None:
                yield before
            before = (high, when, last)
        else:
            before = (high, when, last) if high > before[0] else (before[0], before[1], last)
    if before is not None:
        yield before


def _near(scan: Scan, begin: int, end: int) -> Any:
    """The curve around a stretch of time, finer than that of the whole run."""
    state = scan.core.scan(_BINS, -1, False)
    for source in scan.sources:
        for _ in scan.fed(state, source, begin, end, 0):
            pass
    scan.core.finish(state)
    return state


def _lives(scan: Scan, begin: int, end: int) -> Iterator[Any]:
    """All lives that touch a stretch of time, some at a time, each with its fate."""
    import pyarrow as pa
    from pyarrow import compute

    for source in scan.sources:
        state = scan.core.scan(0, -1, False)
        scan.core.ended(state)
        waiting = 0
        for rows in scan.fed(state, source, begin, end, LONG):
            waiting += rows
            if waiting > _AT_ONCE:
                waiting = 0
                yield _touching(table(scan.core.ended(state)), begin, end)
                scan.core.settle(state, source.at, NEVER, NEVER)
        yield _touching(table(scan.core.ended(state)), begin, end)
        open_ = table(scan._resolved(source.at, scan.core.alive(state, source.at)))
        open_ = open_.append_column("process", pa.array([source.at] * len(open_), pa.uint32()))
        yield open_.filter(compute.less_equal(open_["born"], end))


def _touching(lives: Any, begin: int, end: int) -> Any:
    from pyarrow import compute

    return lives.filter(compute.and_(compute.less_equal(lives["born"], end), compute.greater(lives["ended"], begin)))


def lives_of(scan: Scan, site: int, begin: int, end: int, most: int) -> tuple[Any, int]:
    """The lives born at a site that touch a stretch of time, evenly chosen if they are many, and how many there are."""
    import pyarrow as pa
    from pyarrow import compute

    parts = [lives.filter(compute.equal(lives["site"], site)) for lives in _lives(scan, begin, end)]
    found = pa.concat_tables(parts).sort_by([("born", "ascending"), ("buffer", "ascending")])
    return thinned(found, most), len(found)


def thinned(lives: Any, most: int) -> Any:
    """At most so many rows, evenly chosen."""
    count = len(lives)
    return lives if count <= most else lives.take([at * count // most for at in range(most)])


class _Drawing:
    """The sums on their way."""

    def __init__(self, scan: Scan, devices: Sequence[int], moments: array[int]) -> None:
        import pyarrow as pa

        self._core, self._moments, self._width = scan.core, moments, len(moments) + 1
        self._devices = pa.array([devices.index(at) if at in devices else -1 for at in range(64)], pa.int32())
        self._scan, self._uses = scan, scan.tells_uses
        self._numbers = list(devices)
        sizes = scan.sites()
        births = sizes["births"].to_pylist()
        ordered = sorted(range(len(births)), key=lambda at: -sizes["bytes"][at].as_py())
        top = ordered[: max(20, _ROWS // max(len(devices), 1))]
        self._sites, self.sites = self._rows(top, len(scan.words("site")))
        self._kinds, self.kinds = self._rows(range(len(scan.words("kind"))), len(scan.words("kind")))
        scopes = len(scan.words("scope"))
        self._scopes, self.scopes = self._rows(range(min(scopes, _NAMES)), scopes)
        streams = len(scan.sources)
        self._processes, self.processes = self._rows(range(min(streams, _NAMES)), streams)
        self.counts, self.past = self._like(self.sites), self._like(self.sites)
        chosen = set(top)
        self._shares = pa.array(
            [min(1 << 24, (SAMPLE << 24) // max(count, 1)) if at in chosen else 0 for at, count in enumerate(births)],
            pa.int64(),
        )
        self._sample: list[Any] = []

    def _rows(self, chosen: Sequence[int], count: int) -> tuple[Any, Sums]:
        """Where each number goes, and an empty sum for each device and number chosen; then the unknown, then the rest."""
        import pyarrow as pa

        places = {number: at for at, number in enumerate(chosen)}
        # One more for "not known", which is -1 in a life.
        where = pa.array([len(places), *(places.get(at, len(places) + 1) for at in range(count))], pa.int32())
        rows = [(device, number) for device in self._numbers for number in [*chosen, -1, None]]
        return where, Sums(rows, self._width, array("q", bytes(8 * len(rows) * self._width)))

    def _like(self, sums: Sums) -> Sums:
        return Sums(sums.rows, sums.width, array("q", bytes(8 * len(sums.values))))

    def add(self, lives: Any) -> None:
        """Add some lives to all sums."""
        import pyarrow as pa
        from pyarrow import compute

        if not len(lives):
            return
        device = self._devices.take(lives["device"].cast(pa.int32()))
        # Where nobody told of uses, nothing is past its last one before its end.
        used = compute.max_element_wise(lives["last_use"], lives["born"]) if self._uses else lives["ended"]
        born, ended = self._places(lives["born"], False), self._places(lives["ended"], False)
        late, size = self._places(used, True), _flat(lives["bytes"])
        one = _flat(compute.greater(lives["bytes"], 0).cast(pa.int64()))  # what has no bytes is not counted
        rows = self._at(device, lives["site"], self._sites)
        for sums, begin, amount in ((self.sites, born, size), (self.counts, born, one), (self.past, late, size)):
            self._core.lay(sums.values, self._width, rows, begin, ended, amount)
        for sums, key, where in (
            (self.kinds, self._kind(lives), self._kinds),
            (self.scopes, lives["scope"], self._scopes),
            (self.processes, lives["process"], self._processes),
        ):
            self._core.lay(sums.values, self._width, self._at(device, key, where), born, ended, size)
        self._choose(lives)

    def _places(self, times: Any, after: bool) -> bytes:
        found: bytes = self._core.places(self._moments, _flat(times), after)
        return found

    def _at(self, device: Any, key: Any, where: Any) -> Any:
        """The row of each life; below zero for what lives on no device that counts."""
        import pyarrow as pa
        from pyarrow import compute

        width = where[0].as_py() + 2  # the rest comes last
        inside = where.take(compute.add(key.cast(pa.int32()), 1))
        row = compute.add(compute.multiply(device, pa.scalar(width, pa.int32())), inside)
        return _flat(compute.if_else(compute.less(device, 0), pa.scalar(-1, pa.int32()), row))

    def _kind(self, lives: Any) -> Any:
        """What nobody marked is there from the beginning to the end, or comes and goes; as the peak has it."""
        import pyarrow as pa
        from pyarrow import compute

        words = self._scan.words("kind")
        gone = compute.or_(compute.less(lives["ended"], NEVER), compute.greater(lives["step"], 0))
        number = [pa.scalar(words.index(word), pa.int32()) for word in ("temporary", "constant")]
        kind = lives["kind"].cast(pa.int32())
        return compute.if_else(compute.less(kind, 0), compute.if_else(gone, *number), kind)

    def _choose(self, lives: Any) -> None:
        """Some lives of each site: by a hash of their numbers, so that no rhythm of the program decides."""
        import pyarrow as pa
        from pyarrow import compute

        known = lives.filter(compute.greater_equal(lives["site"], 0))
        half, most = pa.scalar(32, pa.uint64()), pa.scalar(40, pa.uint64())
        mixed = known["buffer"].cast(pa.uint64())
        for _ in range(2):
            mixed = compute.multiply(mixed, pa.scalar(_MIX, pa.uint64()))
            mixed = compute.bit_wise_xor(mixed, compute.shift_right(mixed, half))
        drawn = compute.shift_right(compute.multiply(mixed, pa.scalar(_MIX, pa.uint64())), most).cast(pa.int64())
        chosen = known.filter(compute.less(drawn, self._shares.take(known["site"])))
        if len(chosen):
            self._sample.append(chosen)

    def done(self) -> Timeline:
        """All of it."""
        import pyarrow as pa

        lives = pa.concat_tables(self._sample) if self._sample else None
        return Timeline(
            self._moments, self.sites, self.counts, self.past, self.kinds, self.scopes, self.processes, lives
        )


def _flat(column: Any) -> Any:
    """A column as one piece of memory."""
    import pyarrow as pa

    one = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(one, pa.ChunkedArray):
        one = one.chunk(0) if one.num_chunks else pa.array([], one.type)
    width = one.type.bit_width // 8
    return memoryview(one.buffers()[1])[one.offset * width : (one.offset + len(one)) * width]
