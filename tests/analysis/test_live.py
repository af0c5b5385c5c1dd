"""What is alive while rows come, natively and in Python, against the analyses of the finished trace."""

import sys
from pathlib import Path

import pytest

from tenure.analysis import live as living
from tenure.analysis import scan as scanning
from tenure.analysis import scan_twin
from tenure.analysis.live import COLUMNS, Live, Places, Reading
from tenure.trace.tail import Tail
from tenure.traces import load

sys.path.insert(0, str(Path(__file__).parents[1] / "trace"))
sys.path.insert(0, str(Path(__file__).parents[1] / "views" / "live"))
from made import Made, birth, done, end, training
from made_traces import make_two


@pytest.fixture(params=["native", "twin"])
def engine(request, monkeypatch):
    if request.param == "twin":
        monkeypatch.setattr(living, "engine", lambda: scan_twin)
    else:
        assert scanning.engine() is not scan_twin, "the native scan could not be built"


class Fed:
    """All streams of a folder, fed one batch of each at a time."""

    def __init__(self, folder):
        places = Places()
        tails = [Tail(path, COLUMNS) for path in sorted(folder.glob("*.arrows"))]
        batches = [tail.read() for tail in tails]
        self.all, self.each = Live(places), [Live(places) for _ in tails]
        readings = [Reading(places) for _ in tails]
        for at in range(len(tails)):
            self.all.join(at)
        for turn in range(max(map(len, batches))):
            for at, own in enumerate(batches):
                if turn < len(own):
                    rows = readings[at].rows(own[turn])
                    self.each[at].feed(at, rows)
                    self.all.feed(at, rows)
        for at, tail in enumerate(tails):
            assert tail.complete
            self.each[at].ended(at)
            self.all.ended(at)
            tail.close()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "two"
    make_two(folder)
    return folder


def test_the_sums_are_those_of_the_finished_trace(two, engine):
    trace, fed = load(two), Fed(two)
    scan = trace.scanned
    for live, process in ((fed.all, -1), (fed.each[0], 0), (fed.each[1], 1)):
        found = {one.name: (one.peak, one.at, one.bytes) for one in live.devices(live.lines())}
        assert found == dict(zip(scan.words("device"), scan.peaks(process), strict=True))
        assert live.nbytes == sum(left for _, _, left in scan.peaks(process))


def test_the_lines_are_those_of_the_buffers(two, engine):
    trace, fed = load(two), Fed(two)
    query = """select site, device, count(*) filter (ended is null) as count, coalesce(sum(bytes) filter (ended is null), 0) as bytes,
        count(*) as births from buffers group by all having count > 0"""
    expected = {
        (r["site"], r["device"]): (r["count"], int(r["bytes"]), r["births"]) for r in trace.sql(query).to_pylist()
    }
    assert {(one.site, one.device): (one.count, one.bytes, one.births) for one in fed.all.lines()} == expected
    assert [live.steps for live in fed.each] == [len(times) for times in trace.scanned.steps]


def test_the_curve_is_the_one_of_the_finished_trace(two, engine):
    trace, fed = load(two), Fed(two)
    first, last = trace.scanned.facts[:2]
    for device in fed.all.devices(fed.all.lines()):
        curve = trace.scanned.curve(device.number)
        parts = fed.all.curve(device.number, first, last + 1, 40)
        assert max(parts) == max(curve.most) == device.peak
        assert parts[-1] >= curve.last[-1]


def test_growth_is_told_by_line(tmp_path, engine):
    made = Made(tmp_path)
    training(made, "train.py", 60)
    made.close()
    live = Fed(tmp_path).all
    lines = {line.site: line for line in live.lines()}
    kept = lines["train.py:9 in train"]
    assert (kept.growth, kept.rises, kept.count) == (64 << 10, True, 60)
    assert (lines["train.py:3 in <module>"].growth, lines["train.py:3 in <module>"].rises) == (0, False)
    assert lines[None].bytes == 4 << 10  # of which nobody knows the place
    assert "train.py:8 in train" not in lines  # nothing of it is left
    assert live.growth(live.lines()) == 64 << 10
    assert (live.step, live.steps) == (59, 60)
    assert live.rate == pytest.approx(10)


def test_what_is_replaced_in_each_step_does_not_grow(tmp_path, engine):
    made = Made(tmp_path)
    for step in range(40):  # the last one's state ends when the next one is there
        old = [end(step / 10 + 0.01, step - 1, step)] if step else []
        made.write(birth(step / 10, step, 1024, "a.py:1 in f", step=step), *old, done(step / 10 + 0.05, step))
    made.close()
    (line,) = Fed(tmp_path).all.lines()
    assert (line.growth, line.rises, line.count) == (0, False, 1)


def test_the_memory_of_a_process_that_ended_is_gone(two, engine):
    fed = Fed(two)
    left = fed.each[1].nbytes
    fed.all.forget(0)
    assert fed.all.nbytes == left
    assert {line.site for line in fed.all.lines()} == {line.site for line in fed.each[1].lines()}


def test_many_devices_and_words_that_come_late(tmp_path, engine):
    made = Made(tmp_path)
    for number in range(20):
        made.write(
            birth(number, 2 * number, 100 + number, f"a.py:{number} in f", f"cuda:{number}"),
            birth(number, 2 * number + 1, 7, None, f"cuda:{number}"),
        )
    made.close()
    live = Fed(tmp_path).all
    lines = {(line.site, line.device): line.bytes for line in live.lines()}
    assert lines == {(f"a.py:{n} in f", f"cuda:{n}"): 100 + n for n in range(20)} | {
        (None, f"cuda:{n}"): 7 for n in range(20)
    }
    assert {one.name: one.bytes for one in live.devices(live.lines())} == {f"cuda:{n}": 107 + n for n in range(20)}


def test_memory_goes_with_what_is_alive(tmp_path):
    """Three million rows of which nothing stays: what the process takes does not grow with them."""
    import pyarrow as pa

    made = Made(tmp_path)
    made.write(
        *[
            row
            for n in range(5_000)
            for row in (birth(n / 1e5, n, 64, f"a.py:{n % 50} in f", step=1), end(n / 1e5 + 1e-6, n, 1))
        ]
    )
    made.close()
    tail = Tail(made.path, COLUMNS)
    (batch,) = tail.read()
    tail.close()
    places = Places()
    live, reading = Live(places), Reading(places)
    time = batch.column("time").cast(pa.int64())

    def feed(rounds, begin):
        for at in range(begin, begin + rounds):
            moved = pa.compute.add(time, at * 100_000).cast(batch.column("time").type)
            live.feed(0, reading.rows(batch.set_column(0, "time", moved)))

    feed(100, 0)
    before = resident()
    feed(200, 100)
    assert resident() - before < 8 << 20
    assert live.lines() == []
    assert live.devices([])[0].peak > 0


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
