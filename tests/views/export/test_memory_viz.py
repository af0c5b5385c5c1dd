"""The export for PyTorch's memory viewer, in PyTorch's own tools; and a real snapshot there and back."""

import contextlib
import gzip
import io
import pickle
import pickletools

import pytest
from export_words import HOSTILE, SNAPSHOT

from tenure.trace.foreign import plain_pickle
from tenure.traces import load
from tenure.views.export.memory_viz import _Arena

# What the unpickler in MemoryViz.js, the viewer's page, knows.
VIEWER = set(
    "PROTO FRAME MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE DICT LIST TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE NONE "
    "NEWTRUE NEWFALSE STOP".split()
)


@pytest.fixture
def viz(torch):
    from torch.cuda import _memory_viz

    return _memory_viz


def read(path):
    return plain_pickle.loads(path.read_bytes(), str(path))


def peak(entries):
    alive, most = 0, 0
    for entry in entries:
        alive += {"alloc": entry["size"], "free_completed": -entry["size"]}.get(entry["action"], 0)
        most = max(most, alive)
    return most, alive


def test_torchs_tools_take_it(viz, trace, tmp_path):
    path = trace.export("memory_viz", tmp_path / "run.pickle")
    data = read(path)
    alive = trace.sql("select sum(bytes)::bigint as b from buffers where ended is null").to_pylist()[0]["b"]
    assert f"total_allocated: {viz.Bytes(alive)}" in viz.segsum(data)
    assert "free completed for" in viz.trace(data)
    flames = viz.memory(data, format_flamegraph=lambda text: text)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in flames.splitlines() if "active_allocated" in line) == alive
    with contextlib.redirect_stdout(io.StringIO()):
        assert viz.compare(data["segments"], data["segments"], format_flamegraph=lambda text: text) == ""
    for page in (viz.trace_plot(data), viz.trace_plot(data, plot_segments=True), viz.segment_plot(data)):
        assert "MemoryViz" in page
    assert data["tenure"]["devices"] == ["-c, cpu", "-c, cuda:0", "rank 3: -c, cpu", "rank 3: -c, cuda:0"]


def test_every_buffer_is_there_with_its_stack(trace, tmp_path):
    data = read(trace.export("memory_viz", tmp_path / "x"))
    names = data["tenure"]["devices"]
    number = {process.number: "-c" if process.rank is None else "rank 3: -c" for process in trace.processes}
    got = sorted(
        (names[at], entry["time_us"], entry["size"], entry["category"], [frame["line"] for frame in entry["frames"]])
        for at, entries in enumerate(data["device_traces"])
        for entry in entries
        if entry["action"] == "alloc"
    )
    rows = trace.sql("select *, epoch_us(born) as at from buffers where bytes > 0").to_pylist()
    assert got == sorted(
        (f"{number[row['process']]}, {row['device']}", row["at"], row["bytes"], row["kind"], [row["line"], 7])
        for row in rows
    )


def test_the_viewer_in_the_browser_knows_all_its_instructions(trace, tmp_path):
    path = trace.export("memory_viz", tmp_path / "x")
    assert {code.name for code, _, _ in pickletools.genops(path.read_bytes())} <= VIEWER
    data = read(path)
    # It breaks where there are categories, but none of them is this one.
    assert all(entries[-1]["category"] == "unknown" for entries in data["device_traces"])
    # It counts in doubles, and looks each block up in its segment.
    for segment in data["segments"]:
        first, last = segment["address"], segment["address"] + segment["total_size"]
        assert last < 1 << 53
        entries = data["device_traces"][segment["device"]]
        assert all(
            first <= entry["addr"] <= entry["addr"] + entry["size"] <= last for entry in entries if entry["size"]
        )


def test_no_two_blocks_are_at_one_place(trace, tmp_path):
    for entries in read(trace.export("memory_viz", tmp_path / "x"))["device_traces"]:
        alive = {}
        for entry in entries:
            begin, end = entry["addr"], entry["addr"] + entry["size"]
            if entry["action"] == "alloc":
                assert all(end <= other or begin >= until for other, until in alive.items())
                alive[begin] = end
            elif entry["action"] == "free_completed":
                assert alive.pop(begin) == end


def test_a_snapshot_of_an_h200_there_and_back(viz, tmp_path):
    """A snapshot → a trace → a snapshot, in torch's tools → a trace: the same lives, to the byte."""
    first = load(SNAPSHOT)
    path = first.export("memory_viz", tmp_path / "back.pickle")
    data, original = read(path), pickle.loads(gzip.decompress(SNAPSHOT.read_bytes()))
    assert peak(data["device_traces"][0]) == (91_038_728, 76_071_936)
    assert "total_allocated: 72.5MiB" in viz.segsum(data)
    assert "total_allocated: 72.5MiB" in viz.segsum(original)
    assert viz.trace(data).count(" = ") == first.sql("select count(*) as n from buffers").to_pylist()[0]["n"]
    viz.trace_plot(data)
    second = load(path)
    told = "select epoch_us(born) as born, bytes, stack, epoch_us(ended) as ended, end_stack from buffers order by all"
    assert second.sql(told).to_pylist() == first.sql(told).to_pylist()
    assert second.peak().bytes == first.peak().bytes
    active = sum(
        block["requested_size"]
        for one in original["segments"]
        for block in one["blocks"]
        if block["state"] == "active_allocated"
    )
    assert data["segments"][0]["allocated_size"] == active == 76_071_936


def test_hostile_words_are_text(viz, hostile, tmp_path):
    path = hostile.export("memory_viz", tmp_path / "x")
    data = read(path)
    assert {
        frame["name"] for entries in data["device_traces"] for entry in entries for frame in entry["frames"]
    } >= set(HOSTILE)
    assert {entry["category"] for entries in data["device_traces"] for entry in entries} == {*HOSTILE, "unknown"}
    page = viz.trace_plot(data)
    assert "<script>alert(1)" not in page
    assert path.stat().st_size < 10 * len(HOSTILE[-1])


def test_addresses_are_given_again():
    arena = _Arena(0)
    assert [arena.take(size) for size in (10, 20, 30)] == [0, 10, 30]
    arena.give(10, 20)
    assert arena.take(30) == 60
    assert arena.take(5) == 10
    arena.give(0, 10)
    arena.give(10, 5)  # one hole from 0 to 30
    assert arena.take(30) == 0
    assert arena.top == 90
