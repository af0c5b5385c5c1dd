"""Who was alive at many moments, natively and in Python, against what DuckDB says of the same trace."""

import pytest

from tenure.analysis import scan as scanning
from tenure.analysis import scan_twin
from tenure.analysis.timeline import lives_of, timeline
from tenure.traces import load


@pytest.fixture(scope="module")
def traces(make_traces):
    return make_traces(600, 6_000, 5)


ALIVE = """
    select device, {} as name, sum(bytes)::bigint as bytes, count(*) as count,
        coalesce(sum(bytes) filter (epoch_us(coalesce(greatest(last_use, born), born)) < {at}), 0)::bigint as past
    from buffers where bytes > 0 and epoch_us(born) <= {at} and (ended is null or epoch_us(ended) > {at}) group by all"""


def told(scan, sums, words, at):
    found = {}
    for row, (device, number) in enumerate(sums.rows):
        value = sums.row(row)[at]
        if value:
            name = None if number is None or number < 0 else words[number]
            found[scan.words("device")[device], name] = value
    return found


@pytest.mark.parametrize("name", ["one", "two", "long", "split"])
def test_the_sums_are_those_of_the_buffers(traces, scan, name):
    trace = load(traces / name)
    found = scan(trace.streams)
    drawn = timeline(found, parts=40)
    assert list(drawn.moments) == sorted(set(drawn.moments))
    numbers = [process.number for process in trace.processes]
    with trace.database() as db:
        for at in range(0, len(drawn.moments), max(1, len(drawn.moments) // 12)):
            rows = db.run(ALIVE.format("site", at=drawn.moments[at])).to_pylist()
            for sums, what in ((drawn.sites, "bytes"), (drawn.counts, "count"), (drawn.past, "past")):
                expected = {(row["device"], row["name"]): row[what] for row in rows if row[what]}
                assert told(found, sums, found.words("site"), at) == expected
            rows = db.run(ALIVE.format("process", at=drawn.moments[at])).to_pylist()
            assert told(found, drawn.processes, numbers, at) == {(r["device"], r["name"]): r["bytes"] for r in rows}
            total = sum(row["bytes"] for row in rows)
            assert sum(told(found, drawn.kinds, found.words("kind"), at).values()) == total
            assert sum(told(found, drawn.scopes, found.words("scope"), at).values()) == total


@pytest.mark.parametrize("name", ["one", "long", "split"])
def test_the_peak_is_among_the_moments(traces, scan, name):
    found = scan(load(traces / name).streams)
    drawn = timeline(found, parts=30)
    for device, (most, at, _) in enumerate(found.peaks()):
        if most:
            place = list(drawn.moments).index(at)
            sums = told(found, drawn.sites, found.words("site"), place)
            assert sum(v for (name, _), v in sums.items() if name == found.words("device")[device]) == most


def test_a_stretch_of_time_has_every_change(traces, scan):
    trace = load(traces / "long")
    found = scan(trace.streams)
    first, last = found.facts[:2]
    begin, end = first + (last - first) // 2, first + (last - first) * 11 // 20
    drawn = timeline(found, begin, end, parts=100_000)
    rows = trace.sql(f"select epoch_us(time) as time, total from live where epoch_us(time) between {begin} and {end}")
    expected = {row["time"]: row["total"] for row in rows.to_pylist()}
    totals = [sum(column) for column in zip(*(drawn.sites.row(at) for at in range(len(drawn.sites.rows))), strict=True)]
    assert {at: total for at, total in zip(drawn.moments, totals, strict=True) if at in expected} == expected


def test_lives_of_a_line(traces, scan):
    trace = load(traces / "long")
    found = scan(trace.streams)
    first, last = found.facts[:2]
    begin, end = first + (last - first) // 3, first + (last - first) // 2
    for number, site in enumerate(found.words("site")[:4]):
        lives, count = lives_of(found, number, begin, end, 50)
        rows = trace.sql(f"""select buffer, epoch_us(ended) as ended from buffers where site = '{site}'
            and epoch_us(born) <= {end} and (ended is null or epoch_us(ended) > {begin})""").to_pylist()
        assert count == len(rows) and len(lives) == min(count, 50)
        fates = {row["buffer"]: scanning.NEVER if row["ended"] is None else row["ended"] for row in rows}
        assert all(fates[life["buffer"]] == life["ended"] for life in lives.to_pylist())


def test_the_sample_has_lives_of_every_line(traces, scan):
    found = scan(load(traces / "long").streams)
    drawn = timeline(found)
    sites = {life["site"] for life in drawn.lives.to_pylist()}
    assert sites == {at for at, count in enumerate(found.sites()["births"].to_pylist()) if count}


def test_both_engines_say_the_same(traces, monkeypatch):
    trace = load(traces / "long")
    both = []
    for engine in (scanning.engine(), scan_twin):
        monkeypatch.setattr(scanning, "engine", lambda engine=engine: engine)
        drawn = timeline(scanning.scan(trace.streams), parts=64)
        both.append((drawn.moments, drawn.sites.values, drawn.past.values, drawn.kinds.values, drawn.lives.to_pylist()))
    ours, twins = both
    assert ours[:4] == twins[:4]
    key = lambda life: (life["process"], life["buffer"])  # noqa: E731
    assert sorted(ours[4], key=key) == sorted(twins[4], key=key)


def test_what_does_not_fit_is_refused():
    from array import array

    ints, longs = (lambda *n: array("i", n)), (lambda *n: array("q", n))
    for core in (scanning.engine(), scan_twin):
        sums = array("q", bytes(8 * 6))
        core.lay(sums, 3, ints(0, 1, -1, 0), ints(0, 1, 0, 2), ints(2, 2, 2, 2), longs(5, 7, 9, 1))
        assert list(sums) == [5, 0, -5, 0, 7, -7]
        for rows, begin, end in (
            (ints(2), ints(0), ints(1)),
            (ints(0), ints(-1), ints(1)),
            (ints(0), ints(0), ints(3)),
        ):
            with pytest.raises(ValueError, match="do not exist"):
                core.lay(sums, 3, rows, begin, end, longs(1))
        places = lambda *args: list(array("i", core.places(*args)))  # noqa: B023, E731
        assert places(longs(1, 3, 3, 5), longs(0, 1, 3, 4, 9), False) == [0, 0, 1, 3, 4]
        assert places(longs(1, 3, 3, 5), longs(0, 1, 3, 4, 9), True) == [0, 1, 3, 3, 4]
