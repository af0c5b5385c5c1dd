"""Files of other tools read as traces, against the figures of those tools; and files that should not be read."""

import gzip
import io
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tenure import cli
from tenure.errors import TraceError
from tenure.trace import foreign
from tenure.traces import load

DATA = Path(__file__).parent / "data"
PROGRAM = Path(__file__).parent / "programs" / "jax_memory_profile.py"
SNAPSHOTS = ("cuda", "cuda-last-200", "cuda-state", "cuda-plain")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENURE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def told(name):
    return json.loads((DATA / f"{name}.json").read_text())


def snapshot(name="cuda"):
    return pickle.loads(gzip.decompress((DATA / f"{name}.pickle.gz").read_bytes()))


def opened(tmp_path, value, name="snapshot.pickle"):
    path = tmp_path / name
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value))
    return load(path)


# ------------------------------------------------------------------------------------------ PyTorch's snapshots


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_what_is_alive_in_the_end_is_what_the_allocator_said(name):
    trace = load(DATA / f"{name}.pickle.gz")
    (row,) = trace.sql("select count(*) as n, sum(bytes)::bigint as bytes from buffers where ended is null").to_pylist()
    figures = told(name)
    assert row == {"n": figures["allocation.current"], "bytes": figures["requested_bytes.current"]}
    assert row["bytes"] == figures["memory_allocated"]  # here, no block is larger than what was asked for
    assert trace.scanned.words("device") == ["cuda:0"]


def test_the_peak_and_all_that_was_born_are_the_allocators_to_the_byte():
    trace, figures = load(DATA / "cuda.pickle.gz"), told("cuda")
    assert trace.peak().bytes == figures["requested_bytes.peak"] == 91_038_728
    born = trace.sql("select count(*) as n, sum(bytes)::bigint as bytes from buffers").to_pylist()[0]
    before = figures["before"]
    # What was there before is told as born at the beginning.
    assert born["n"] == figures["allocation.allocated"] - before["allocation.allocated"] + before["allocation.current"]
    assert born["bytes"] == (
        figures["requested_bytes.allocated"] - before["requested_bytes.allocated"] + before["requested_bytes.current"]
    )


def test_steps_are_found_and_after_each_as_much_is_alive_as_the_allocator_said():
    trace, figures = load(DATA / "cuda.pickle.gz"), told("cuda")
    ends = [row["ended"] for row in trace.steps().to_pylist()]
    assert len(ends) == len(figures["steps"]) == 3
    live = trace.live_bytes().to_pylist()
    births = [row["born"] for row in trace.buffers().to_pylist()]
    for end, figure in zip(ends, figures["steps"], strict=True):
        following = min((born for born in births if born > end), default=None)  # after zero_grad, in the next step
        seen = [row["bytes"] for row in live if row["time"] > end and (following is None or row["time"] < following)]
        assert seen[-1] == figure["requested_bytes.current"]


def test_sites_are_the_users_lines():
    trace = load(DATA / "cuda.pickle.gz")
    program = (Path(__file__).parent / "programs" / "cuda_snapshot.py").read_text().splitlines()
    rows = trace.sql("select file, line, function from sites where file is not null").to_pylist()
    assert {Path(row["file"]).name for row in rows} == {"cuda_snapshot.py"}
    (line,) = {row["line"] for row in rows if row["function"] == "train" and "cuda()" in program[row["line"] - 1]}
    assert "model = Small().cuda()" in program[line - 1]
    ends = trace.sql("select distinct end_function as f from buffers where end_site is not null").to_pylist()
    assert {row["f"] for row in ends} >= {"step", "train"}


def test_frames_of_frees_that_are_those_of_the_births_are_not_told_as_the_ends():
    # They were recorded with context="alloc": torch then gives the frames of the allocation once more.
    rows = (
        load(DATA / "cuda-last-200.pickle.gz").sql("select end_site from buffers where ended is not null").to_pylist()
    )
    assert len(rows) == 78
    assert {row["end_site"] for row in rows} == {None}


@pytest.mark.parametrize("name", [*(f"{name}.pickle.gz" for name in SNAPSHOTS), "jax-cuda.prof"])
def test_nothing_is_concluded_from_uses_that_nobody_recorded(name):
    trace = load(DATA / name)
    assert trace.drag() is None
    assert trace.leaks() == ()
    assert trace.peak().past == 0
    assert {one.name for one in trace.peak().kinds} == {"unknown"}
    assert [finding.code for finding in trace.findings() if finding.code != "TN502"] == []
    assert {row["drag"] for row in trace.sql("select drag from sites").to_pylist()} == {None}
    assert {row["last_use"] for row in trace.buffers().to_pylist()} == {None}
    assert "unknown" in trace.notes[0]
    assert "drag" in trace.notes[0]


def test_the_verbs_work_on_it(capsys, tmp_path):
    one, other = str(DATA / "cuda.pickle.gz"), str(DATA / "cuda-plain.pickle.gz")
    assert cli.main(["report", one]) == 0
    report = capsys.readouterr().out
    assert "86.8 MiB on cuda:0" in report
    assert "made from a CUDA snapshot of PyTorch" in report
    assert "not used again" not in report
    assert "Summary: leaks not checked. Peak memory is 86.8 MiB on cuda:0." in report
    assert "leaks and last uses not checked: the file is from another tool, which does not record them" in report
    assert cli.main(["sql", one, "select count(*) as n from buffers", "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ["n", "487"]
    assert cli.main(["diff", one, other]) == 0
    assert "cuda-plain.pickle.gz at its peak: 72.5 MiB" in capsys.readouterr().out
    plain = tmp_path / "snapshot"  # the name says nothing, the content does
    plain.write_bytes(gzip.decompress(Path(one).read_bytes()))
    assert cli.main(["report", str(plain)]) == 0


def test_a_file_is_made_into_a_trace_once(cache, tmp_path):
    first, again = load(DATA / "cuda.pickle.gz"), load(DATA / "cuda.pickle.gz")
    assert first.processes[0].path == again.processes[0].path
    assert first.path == DATA / "cuda.pickle.gz"
    assert [path.name for path in (cache / "tenure" / "foreign").iterdir()] == [first.processes[0].path.parent.name]


def test_snapshots_without_times_keep_their_order(tmp_path):
    value = snapshot()
    for entry in value["device_traces"][0]:
        del entry["time_us"]
    trace = opened(tmp_path, value)
    assert trace.peak().bytes == told("cuda")["requested_bytes.peak"]
    assert any("no times" in note for note in trace.notes)


def test_the_oldest_forms_are_read(tmp_path):
    block = {"size": 512, "state": "active_allocated", "history": [{"addr": 512, "real_size": 500, "frames": [
        {"filename": "/home/me/a.py", "line": 3, "name": "f"}]}]}  # fmt: skip
    free = {"size": 512, "state": "inactive"}
    value = [{"device": 1, "address": 512, "total_size": 1024, "stream": 0, "blocks": [block, free]}]
    (row,) = opened(tmp_path, value).buffers().to_pylist()
    assert (row["device"], row["bytes"], row["site"]) == ("cuda:1", 500, "/home/me/a.py:3 in f")


def test_a_history_that_ends_before_the_snapshot_is_told(tmp_path):
    value = snapshot()
    value["segments"] = []
    trace = opened(tmp_path, value)
    assert trace.sql("select count(*) as n from buffers where ended is null").to_pylist() == [{"n": 0}]
    assert any("72 blocks were freed after its history;" in note for note in trace.notes)


def test_running_out_of_memory_is_a_mark(tmp_path):
    value = snapshot()
    last = value["device_traces"][0][-1]
    value["device_traces"][0].append({**last, "action": "oom", "size": 1 << 40, "device_free": 5})
    (mark,) = opened(tmp_path, value).sql("select name from events where event = 'mark'").to_pylist()
    assert mark["name"] == "out of memory on cuda:0: 1,099,511,627,776 bytes wanted, 5 free"


# ------------------------------------------------------------------------------------------ JAX's profiles


def test_a_profile_of_jax_on_a_gpu_is_what_jax_said():
    trace, figures = load(DATA / "jax-cuda.prof"), told("jax-cuda")
    assert trace.peak().bytes == figures["live"] == figures["stats"]["bytes_in_use"]
    rows = trace.buffers().to_pylist()
    assert (len(rows), {row["device"] for row in rows}) == (figures["count"], {"cuda:0"})
    assert {(row["function"], row["bytes"]) for row in rows} == {
        ("layer", 262144),
        ("model", 2048),
        ("<module>", 262144),
    }
    assert any("compiled programs" in note for note in trace.notes)


def test_a_profile_of_the_jax_that_is_installed(tmp_path):
    path = tmp_path / "memory.prof"
    done = subprocess.run([sys.executable, str(PROGRAM), str(path)], capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    trace = load(path)
    rows = trace.buffers().to_pylist()
    assert (sum(row["bytes"] for row in rows), len(rows)) == (figures["live"], figures["count"])
    assert {Path(row["file"]).name for row in rows} == {PROGRAM.name}


# ------------------------------------------------------------------------------------------ what should not be read


class Call:
    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


class Persistent(pickle.Pickler):
    def persistent_id(self, value):
        return "x" if value == 1 else None


def hostile(marker):
    line = f"touch {marker}"
    persistent = io.BytesIO()
    Persistent(persistent).dump({"segments": [1]})
    return {
        "a call": pickle.dumps({"segments": [Call(os.system, line)]}),
        "a call, protocol 2": pickle.dumps({"segments": Call(os.system, line)}, protocol=2),
        "eval": pickle.dumps(Call(eval, f"open({str(marker)!r}, 'w')")),
        "an instance": b"\x80\x02(S'" + line.encode() + b"'\nios\nsystem\n.",
        "an object": b"\x80\x02(cos\nsystem\nS'" + line.encode() + b"'\no.",
        "a class": pickle.dumps({"segments": [], "x": Path("x")}),
        "an extension": b"\x80\x02\x82\x01.",
        "a persistent id": persistent.getvalue(),
        "a harmless class": pickle.dumps({"segments": [], "x": 1 + 2j}),
    }


@pytest.mark.parametrize("name", hostile("x"))
def test_a_pickle_that_asks_for_anything_is_refused_and_not_executed(name, tmp_path, capsys):
    marker = tmp_path / "executed"
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(hostile(marker)[name])
    assert cli.main(["report", str(path)]) == 2
    out = capsys.readouterr()
    assert not marker.exists()
    assert out.out == ""
    assert out.err.startswith("tenure: ")
    assert len(out.err.splitlines()) == 1
    assert "nothing of it was executed" in out.err or name == "an extension"


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\x80\x04", b"\n\x04\x08", b"\n" * 40, b"\x1f\x8b", b"\x1f\x8b\x08junk", b"hello", bytes(100),
     pickle.dumps([]), pickle.dumps({}), pickle.dumps({"segments": 3}), pickle.dumps({"segments": [3]}), pickle.dumps("x"),
     pickle.dumps({"segments": [], "device_traces": [[{}]]}), pickle.dumps({"segments": [], "device_traces": 7}),
     pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1 << 70, "time_us": 5}]]}),
     pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1, "time_us": 1 << 62}]]}),
     gzip.compress(b"some text"), gzip.compress(b"\n\x04\x08\x01\x10\x02")],
    ids=itertools.count(),
)  # fmt: skip
def test_what_is_no_such_file_is_one_clear_line(data, tmp_path, capsys):
    path = tmp_path / "file"
    path.write_bytes(data)
    assert cli.main(["report", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"tenure: {path}")
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("name", ["cuda-last-200.pickle.gz", "jax-cuda.prof"])
def test_damage_is_told_or_harmless(name, tmp_path):
    data = gzip.decompress((DATA / name).read_bytes())
    rng = random.Random(7)
    path = tmp_path / "file"
    refused = 0
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        del broken[rng.choice([len(broken), rng.randrange(len(broken))]) :]
        path.write_bytes(broken)
        try:
            load(path)
        except TraceError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 15


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign, "_LARGEST", 1 << 30)
    path = tmp_path / "bomb.pickle.gz"
    path.write_bytes(gzip.compress(b"\x80\x04" + bytes(1 << 20)))
    monkeypatch.setattr(foreign, "_LARGEST", 1 << 16)
    with pytest.raises(TraceError, match="unpacks to more than"):
        load(path)


def test_hostile_names_are_text(tmp_path, capsys):
    names = [
        "<script>alert(1)</script>",
        "\x1b[31mred\x1b[0m",
        "two\nlines\r\x0b\u2028",
        "nul\0",
        "x" * 1_000_000,
        "';drop",
    ]
    frames = [{"filename": f"/home/me/{name}.py", "line": 3, "name": name} for name in names]
    entries = [
        {"action": "alloc", "addr": at, "size": 1000 + at, "time_us": 10 + at, "stream": 0, "frames": [frame]}
        for at, frame in enumerate(frames)
    ]
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [entries]}))
    rows = load(tmp_path / "s.pickle").buffers().to_pylist()
    assert [row["function"] for row in rows] == [*names[:2], "two\\nlines\\r\\x0b\\u2028", "nul\\x00", *names[4:]]
    assert cli.main(["report", str(tmp_path / "s.pickle")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\0" not in out


def test_every_reader_is_named():
    files = {path.stem for path in Path(foreign.__file__).parent.glob("*.py")}
    assert files - {"__init__", "frames", "making", "plain_pickle", "protobuf"} == {
        one.__name__.rpartition(".")[2] for one in foreign.READERS
    }
