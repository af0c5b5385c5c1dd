"""The scan, natively and in Python, against what DuckDB says of the same trace."""

import random
from array import array

import pyarrow as pa
import pytest

from tenure.analysis import scan as scanning
from tenure.analysis import scan_twin
from tenure.trace.digest import COLUMNS
from tenure.trace.streams import RANGES
from tenure.traces import load


@pytest.fixture(scope="module")
def traces(make_traces):
    return make_traces(1500, 12_000, 64)


def micro(value):
    return None if value is None else round(value.timestamp() * 1e6)


@pytest.mark.parametrize("name", ["one", "two", "long"])
def test_the_curve_is_the_one_of_the_live_view(traces, scan, name):
    trace = load(traces / name)
    found = scan(trace.streams)
    for number, device in enumerate(found.words("device")):
        rows = trace.sql(f"select time, bytes from live where device = '{device}' order by time").to_pylist()
        curve = found.curve(number)
        assert curve.shift == 0
        expected = {micro(row["time"]): row["bytes"] for row in rows}
        assert dict(zip(curve.index, curve.last, strict=True)) == expected
        most = max(expected.values())
        assert found.peaks()[number][:2] == (most, min(t for t, b in expected.items() if b == most))


@pytest.mark.parametrize("name", ["one", "two", "long"])
def test_who_is_alive_and_what_became_of_them(traces, scan, name):
    trace = load(traces / name)
    found = scan(trace.streams)
    first, last, births, total, late = found.facts
    assert late == 0
    assert (births, total) == tuple(
        trace.sql("select count(*) as n, sum(bytes)::bigint as b from buffers").to_pylist()[0].values()
    )
    numbers = [process.number for process in trace.processes]
    for moment in (first, (first + last) // 2, first + (last - first) // 3, last):
        rows = trace.sql(
            f"select process, buffer, bytes, site, last_use, ended, step from buffers where epoch_us(born) <= {moment} "
            f"and (ended is null or epoch_us(ended) > {moment})"
        ).to_pylist()
        expected = {
            (r["process"], r["buffer"]): (
                r["bytes"],
                r["site"],
                micro(r["last_use"]) or 0,
                micro(r["ended"]) or scanning.NEVER,
                r["step"],
            )
            for r in rows
        }
        alive = found.alive(moment).to_pylist()
        sites = found.words("site")
        assert {
            (numbers[r["process"]], r["buffer"]): (r["bytes"], sites[r["site"]], r["last_use"], r["ended"], r["step"])
            for r in alive
        } == expected


def test_sites_and_growth(traces, scan):
    trace = load(traces / "one")
    found = scan(trace.streams)
    rows = trace.sql("""
        select site, count(*) as births, sum(bytes)::bigint as bytes, count(*) filter (ended is null) as count,
            coalesce(sum(bytes) filter (ended is null), 0)::bigint as alive, max(epoch_us(born))::bigint as last,
            coalesce(sum(bytes * (epoch_us(ended) - epoch_us(coalesce(last_use, born)))), 0)::double as drag
        from buffers group by site""").to_pylist()
    expected = {row.pop("site"): row for row in rows}
    assert dict(zip(found.words("site"), found.sites().to_pylist(), strict=True)) == expected
    width, last, count, size = found.growth()
    steps = trace.sql("select max(step) as last from buffers").to_pylist()[0]["last"]
    assert (width, last) == (1, steps)
    for number, site in enumerate(found.words("site")):
        assert sum(count[number * 128 : number * 128 + 128]) == expected[site]["count"]
        assert sum(size[number * 128 : number * 128 + 128]) == expected[site]["alive"]


def test_growth_of_many_steps_comes_in_wider_parts(traces, scan):
    found = scan(load(traces / "long").streams)
    width, last, count, _ = found.growth()
    assert last // width < 128 <= last // (width // 2)
    assert sum(count) == sum(found.sites()["count"].to_pylist())


def test_a_coarser_curve_keeps_the_peaks(traces, scan, monkeypatch):
    trace = load(traces / "one")
    exact = scan(trace.streams)
    monkeypatch.setattr(scanning.digest, "BINS", 64)
    coarse = scan(trace.streams)
    assert coarse.peaks() == exact.peaks()
    for device in range(2):
        fine, wide = exact.curve(device), coarse.curve(device)
        assert len(wide.index) <= 64 < len(fine.index)
        most = {}
        for index, high in zip(fine.index, fine.most, strict=True):
            most[index >> wide.shift] = max(most.get(index >> wide.shift, 0), high)
        assert dict(zip(wide.index, wide.most, strict=True)) == most


def test_rows_that_come_late_are_put_in_order(traces, scan, monkeypatch):
    trace = load(traces / "long")
    exact = scan(trace.streams)
    monkeypatch.setattr(scanning, "WINDOW", 0)
    monkeypatch.setattr(scanning, "_in_time", reversed_chunks(scanning._in_time))
    again = scan(trace.streams)
    assert again.peaks() == exact.peaks()
    assert again.curve(0) == exact.curve(0)


def reversed_chunks(real):
    """Chunks whose batches are a little out of order, births before ends still."""

    def give(sources, columns, times):
        for source, chunk in real(sources, columns, times):
            for number, batch in chunk:
                half = batch.num_rows // 2
                for part in (batch.slice(0, half), batch.slice(half)):
                    births = pa.compute.equal(part["event"], 0)
                    first, rest = part.filter(births), part.filter(pa.compute.invert(births))
                    yield source, [(number, first)]
                    yield source, [(number, rest)]

    return give


def told(trace):
    peak = trace.peak()
    return (peak.bytes, peak.time, peak.step, peak.past, peak.sites, peak.kinds, peak.scopes, peak.steps, peak.devices)


def test_split_over_64_ranks_it_says_the_same(traces):
    whole, ranks = load(traces / "one"), load(traces / "split")
    assert len(ranks.processes) == 64
    assert told(ranks) == told(whole)
    assert ranks.scanned.facts == whole.scanned.facts
    assert ranks.scanned.growth()[:2] == whole.scanned.growth()[:2]
    peak = ranks.peak()
    assert {one.rank for one in peak.ranks} <= set(range(64))
    assert peak.ranks[0].times > 1


def test_words_that_are_replaced_are_told_apart(tmp_path):
    """A stream of another writer, whose second batch has other words for the same numbers."""
    from tenure.trace import writer
    from tenure.trace.events import schema

    def batch(buffer, site):
        row = {name: None for name in schema().names}
        row |= {
            "time": 1_700_000_000_000_000 + buffer,
            "event": "birth",
            "buffer": buffer,
            "bytes": 8,
            "site": site,
            "device": "cpu",
        }
        return pa.record_batch([pa.array([row[f.name]], f.type) for f in schema()], schema=schema())

    stream = writer.Stream(tmp_path, "events-1", {"version": "1", "pid": "1", "clock_offset_ns": "0"})
    for buffer, site in enumerate(("a.py:1", "b.py:2", "a.py:1")):
        stream.write(batch(buffer, site))
    stream.close()
    trace = load(tmp_path)
    found = scanning.scan(trace.streams)
    assert [found.words("site")[site] for site in found.alive()["site"].to_pylist()] == ["a.py:1", "b.py:2", "a.py:1"]
    assert [(site.file, site.line, site.count) for site in trace.peak().sites] == [("a.py", 1, 2), ("b.py", 2, 1)]


# ------------------------------------------------------------------------------ the same of random rows

TIMES, BYTES = RANGES["time"][1], RANGES["bytes"][1]


def random_batches(rng, damaged):
    """Rows as no recorder writes them: late, without a birth, of buffers born twice, with words missing; or impossible ones."""
    clock, batches = rng.choice([0, 1_700_000_000_000_000, TIMES - 10_000]), []
    for number in range(rng.choice([1, 3, 70])):
        rows = []
        for _ in range(rng.randrange(12 if number else 40)):
            clock = min(clock + rng.choice([0, 0, 1, 40]), TIMES)
            rows.append(
                {
                    "time": max(0, clock - rng.choice([0, 0, 0, 60])),
                    "event": rng.choice([0, 0, 0, 1, 2, 2, 3, 4, 5]),
                    "buffer": rng.choice([None, *range(8), *range(8)]),
                    "bytes": rng.choice([None, 0, 4, 4096, BYTES]),
                    "device": rng.choice([None, 0, 1, 69]),
                    "site": rng.choice([None, 0, 1, 5]),
                    "kind": rng.choice([None, None, 0, 2]),
                    "last_use": rng.choice([None, clock, max(0, clock - 70)]),
                    "step": rng.choice([None, number, number * 3, 200]),
                    "scope": rng.choice([None, 0, 1]),
                }
            )
        if damaged and rows and rng.random() < 0.2:
            column, value = rng.choice(
                [("time", TIMES + 1), ("bytes", BYTES + 1), ("bytes", -1), ("site", 6), ("event", 6)]
            )
            rng.choice(rows)[column] = value
        batches.append(pa.RecordBatch.from_pylist(rows, schema=ROWS))
    return batches


ROWS = pa.schema(
    [
        (name, {"buffer": pa.uint32()}.get(name, pa.int64() if name in ("time", "bytes", "last_use") else pa.int32()))
        for name in COLUMNS
    ]
)


def said(core, batches, bins, until, seed):
    """All that a scan says, asked for in between as well."""
    rng = random.Random(seed)
    state = core.scan(bins, until, rng.random() < 0.5)
    maps = tuple(array("i", range(count)) for count in (6, 70, 6, 3, 2))
    found, kept = [], {}
    for number, batch in enumerate(batches):
        process = rng.randrange(2)
        try:
            latest = core.feed(state, process, number, batch, tuple(range(10)), maps)
        except ValueError as error:
            return [*found, str(error)]
        found.append(latest)
        if rng.random() < 0.3:
            core.settle(state, process, max(latest - 50, 0), max(latest - 50, 0))
        if rng.random() < 0.1:
            kept[process] = core.keep(state, process)
    core.finish(state)

    def lives(columns):
        """In an order that does not depend on tables."""
        codes = {**{name: scanning._CODES[kind] for name, kind in scanning.TYPES.items()}}
        read = [array(codes[name], bytes(columns[name])).tolist() for name in sorted(columns)]
        return sorted(columns), sorted(zip(*read, strict=True))

    found += [core.facts(state), [core.peaks(state, process) for process in (0, 1)], core.growth(state)]
    found += [core.bins(state, device) for device in (0, 1, 63)] + [core.moments(state, 0)]
    found += [lives(core.alive(state, process)) for process in (0, 1)] + [lives(core.longs(state))]
    found += [core.sites(state)] + [core.steps(state, process) for process in (0, 1)]
    for process, lived in kept.items():
        other = core.scan(bins, -1, False)
        core.restore(other, process, lived)
        core.finish(other)
        found += [lives(core.alive(other, process)), core.peaks(other, -1)[:2]]
    return found


def compare(seeds):
    native = scanning.engine()
    assert native is not scan_twin, "the native scan could not be built"
    for seed in seeds:
        rng = random.Random(seed)
        batches = random_batches(rng, damaged=seed % 4 == 0)
        bins, until = rng.choice([0, 4, 64, 1 << 17]), rng.choice([-1, -1, 50, 1_700_000_000_000_100])
        both = [said(core, batches, bins, until, seed) for core in (native, scan_twin)]
        for one, other in zip(*both, strict=True):
            assert one == other, f"seed {seed}"


def test_both_say_the_same_of_random_rows():
    compare(range(300))


@pytest.mark.long
@pytest.mark.timeout(0)
def test_both_say_the_same_of_many_random_rows():
    compare(range(1000, 51_000))
