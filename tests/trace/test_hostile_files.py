"""Small files that claim to be large ones: each is refused before it takes time or memory."""

import functools
import gzip
import json
import os
import pickle
import random
import subprocess
import sys
import zlib

import pyarrow as pa
import pytest
from made_traces import make

from tenure.errors import TraceError
from tenure.trace import messages
from tenure.trace.events import VERSION, schema
from tenure.trace.numbers import Numbers
from tenure.trace.writer import Stream
from tenure.traces import load

ABOUT = {"version": str(VERSION), "pid": "7", "parent": "1", "command": "[]", "clock_offset_ns": "0"}

# Opens each file of a list, says what came of it, and what memory all of them took.
OPEN = """
import re, sys, time
from tenure.cli import main
for path in sys.argv[1:]:
    begun = time.process_time()
    code = main(["report", path])
    print(code, time.process_time() - begun)
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


def batch(rows, times=None):
    columns = []
    for field in schema():
        if pa.types.is_dictionary(field.type):
            column = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array(["birth"]))
        elif field.name == "time" and times is not None:
            column = pa.array(times, pa.int64()).cast(field.type)
        else:
            column = pa.repeat(pa.scalar(1, pa.int64()).cast(field.type), rows)
        columns.append(column)
    return pa.record_batch(columns, schema=schema())


def packed(folder, one, count=1):
    """A trace of batches like this one, with sums that are right."""
    folder.mkdir()
    described = one.schema.with_metadata({f"tenure.{key}": value for key, value in ABOUT.items()})
    path = folder / "events-7.arrows"
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with path.open("wb") as file, pa.ipc.new_stream(file, described, options=options) as writer:
        for _ in range(count):
            writer.write_batch(one)
    data = path.read_bytes()
    (folder / "events-7.sums").write_text(f"{len(data)} {zlib.crc32(data):08x}\n")
    (folder / "meta.json").write_text(json.dumps({"format": "tenure trace", "version": VERSION}))
    return folder


def snapshot(**more):
    return pickle.dumps({"segments": [], **more})


@functools.cache
def bombs():
    """What is refused, and the words that say why."""
    many = [{"address": 1, "state": "active_allocated", "size": 1, "requested_size": 1}] * 20_000
    segment = {"address": 1, "total_size": 1, "blocks": many}
    frames = [{"filename": "a" * 500_000, "line": 1, "name": "f"}] * 5_000
    long = {"address": 1, "state": "active_allocated", "size": 1, "requested_size": 1, "frames": frames}
    return {
        "place": (b"\x80\x04]r\xff\xff\xff\x1f.", "a number that is too large"),
        "place as text": (b"\x80\x04]p536870911\n.", "a number that is too large"),
        "place with names": (b"\x80\x04\x8c\x04abcd]r\x00\x00\x00\x10.", "a number that is too large"),
        "length": (b"\x80\x04\x8e\x00\x00\x00\x00\x02\x00\x00\x00.", "it is cut off"),
        "lists": (b"\x80\x04(" + b"]" * 3_000_000 + b"l.", "almost only empty values"),
        "gzip of nothing": (gzip.compress(bytes(50_000_000)), "is not a trace"),
        "gzip of a pickle": (gzip.compress(b"\x80\x04(" + b"N" * 50_000_000 + b"l."), "no such file does"),
        "gzip of a profile": (gzip.compress(b"\x0a\x04\x08\x01\x10\x02" + b"2\x00" * 10_000_000), "no such file does"),
        "profile": (b"\x0a\x04\x08\x01\x10\x02" + b"2\x00" * 2_000_000, "more than 1,000,000 parts"),
        "repeated blocks": (
            snapshot(segments=[segment] * 20_000),
            "more blocks and events than a file of its size can contain",
        ),
        "repeated events": (
            snapshot(device_traces=[[{}] * 20_000] * 20_000),
            "more blocks and events than a file of its size can contain",
        ),
        "long stacks": (snapshot(segments=[{**segment, "blocks": [long]}]), "longer than a file of its size"),
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """For each name: exit code, seconds of the processor, and what was said; and the megabytes of all."""
    folder = tmp_path_factory.mktemp("hostile")
    names = {}
    for name, (data, _) in bombs().items():
        names[name] = folder / f"{name}.pickle"
        names[name].write_bytes(data)
    names["claims"] = packed(folder / "claims", batch(1_500_000))
    names["ratio"] = packed(folder / "ratio", batch(200_000), 4)
    done = subprocess.run(
        [sys.executable, "-c", OPEN, *map(str, names.values())], capture_output=True, text=True, check=True,
        timeout=120, env={**os.environ, "TENURE_CACHE_DIR": str(folder / "cache")},
    )  # fmt: skip
    *lines, megabytes = done.stdout.splitlines()
    said = done.stderr.splitlines()
    assert len(said) == len(lines) == len(names)
    told = {name: (*map(float, line.split()), text) for name, line, text in zip(names, lines, said, strict=True)}
    return told, int(megabytes)


@pytest.mark.parametrize("name", [*bombs(), "claims", "ratio"])
def test_a_bomb_is_refused(answers, name):
    code, _, text = answers[0][name]
    words = {"claims": "claims 1,500,000 rows and to unpack to 15", "ratio": "times its size"}
    assert code == 2
    assert (words.get(name) or bombs()[name][1]) in text
    assert text.startswith("tenure: ")


def test_what_bombs_take(answers):
    told, megabytes = answers
    assert megabytes < 300  # the process and all of them together
    assert max(seconds for _, seconds, _ in told.values()) < 10  # of the processor; it is a tenth of that


def test_a_flood_is_written_in_batches_that_are_read(tmp_path):
    rng = random.Random(1)
    rows = 300_000
    one = batch(rows, sorted(rng.randrange(1 << 40) for _ in range(rows)))
    stream = Stream(tmp_path, "events-7", ABOUT)
    stream.write(one)
    stream.close()
    trace = load(tmp_path)
    assert trace.sql("select count(*) as n from events").to_pylist() == [{"n": rows}]
    assert (trace.streams[0].batches, trace.processes[0].events) == (3, rows)
    assert max(trace.streams[0].seen.sizes) < messages._LARGEST_BODY // 5


def test_large_batches_are_read_one_at_a_time(tmp_path):
    rng = random.Random(2)
    rows = 100_000
    one = batch(rows, sorted(rng.randrange(1 << 40) for _ in range(rows)))
    stream = load(packed(tmp_path / "run", one, 12)).streams[0]
    groups = Numbers(stream)._groups(range(12), 32)
    assert [batch for _, group in groups for batch in group] == list(range(12))
    assert len(groups) > 3
    assert max(size for size, _ in groups) <= 1 << 25
    assert sum(found.num_rows for chunk in Numbers(stream).chunks(("time",)) for _, found in chunk) == 12 * rows


@pytest.mark.parametrize("notes", [5, "text", {"a": 1}, [1, None], None])
def test_notes_that_are_no_list(tmp_path, notes):
    make(tmp_path / "run")
    path = tmp_path / "run" / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "notes": notes}))
    if notes is None or notes == [1, None]:
        load(tmp_path / "run")
        return
    with pytest.raises(TraceError, match=r"meta.json is damaged: its notes are not a list"):
        load(tmp_path / "run")


@pytest.mark.parametrize(
    "name", ["events-1.arrows", "events-1.sums", "meta.json", "findings-1.jsonl", "events-1.digest"]
)
def test_a_pipe_in_the_place_of_a_file(tmp_path, name):
    make(tmp_path / "run")
    real = next(iter((tmp_path / "run").glob(name.replace("events-1", "events-*"))), tmp_path / "run" / name)
    real.unlink(missing_ok=True)
    os.mkfifo(real)
    words = [sys.executable, "-m", "tenure", "report", str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    refused = name in ("events-1.arrows", "events-1.sums", "meta.json")
    assert ("it is not a regular file" in done.stderr) == refused
    assert done.returncode == (2 if refused else 0)
    assert "Traceback" not in done.stderr


def test_a_line_beside_a_stream_that_holds_too_much_is_passed_over(tmp_path):
    make(tmp_path / "run")
    many = '{"a": [' + "[]," * 3_500_000 + "[]]}\n"
    (tmp_path / "run" / "findings-1.jsonl").write_text(many + "[" * 100_000 + "\n5\n")
    assert load(tmp_path / "run").faults() == []
