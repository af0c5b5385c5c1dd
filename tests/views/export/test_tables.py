"""Tables as CSV and Parquet, and what holds for every format: whole files, names, errors."""

import csv
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from export_words import HOSTILE, SNAPSHOT

from tenure.errors import TraceError
from tenure.traces import load
from tenure.views import export
from tenure.views.export.base import TABLES, frames

csv.field_size_limit(sys.maxsize)


@pytest.mark.parametrize("table", TABLES)
def test_parquet_is_the_table(trace, table, tmp_path):
    told = pq.read_table(trace.export("parquet", tmp_path / "x.parquet", table=table))
    expected = trace.sql(f"select * from {table}")
    assert told.column_names == expected.column_names
    assert sorted(map(str, told.to_pylist())) == sorted(map(str, expected.to_pylist()))


@pytest.mark.parametrize("table", TABLES)
def test_csv_is_the_table(trace, table, tmp_path):
    with trace.export("csv", tmp_path / "x.csv", table=table).open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = trace.sql(f"select * from {table}")
    assert list(rows[0]) == expected.column_names
    assert len(rows) == len(expected)
    if "bytes" in rows[0]:
        assert sum(int(row["bytes"] or 0) for row in rows) == sum(row["bytes"] or 0 for row in expected.to_pylist())


def test_buffers_are_in_the_order_of_their_births(trace, tmp_path):
    told = pq.read_table(trace.export("parquet", tmp_path / "x.parquet"))
    assert told.to_pylist() == trace.buffers().to_pylist()


def test_hostile_words_are_text(hostile, tmp_path):
    rows = pq.read_table(hostile.export("parquet", tmp_path / "x.parquet")).to_pylist()
    assert [row["op"] for row in rows] == list(HOSTILE)
    assert [row["device"] for row in rows] == list(HOSTILE)
    with hostile.export("csv", tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        told = list(csv.DictReader(file))
    assert [row["op"] for row in told] == list(HOSTILE)
    assert [row["stack"] for row in told] == [row["stack"] for row in rows]


def test_every_file_is_a_format():
    files = {path.stem for path in Path(export.__file__).parent.glob("*.py")}
    assert files - {"__init__", "base", "by_stack", "packets", "pickles"} == {
        one.__name__.rpartition(".")[2] for one in export.FORMATS
    }
    assert all(one.__doc__ and one.ABOUT for one in export.FORMATS)


@pytest.mark.parametrize("name", export.NAMES)
def test_a_file_is_called_after_its_trace(folder, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = load(folder).export(name)
    assert [path] == [one.relative_to(tmp_path) for one in tmp_path.iterdir()]
    assert path.name.startswith("run")
    assert path.stat().st_size > 100


@pytest.mark.parametrize("name", export.NAMES)
def test_a_snapshot_is_never_written_over(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("memory.pickle").write_bytes(SNAPSHOT.read_bytes())
    trace = load("memory.pickle")
    assert trace.export(name).name != "memory.pickle"
    with pytest.raises(TraceError, match="is part of the trace"):
        trace.export(name, "memory.pickle")
    assert Path("memory.pickle").read_bytes() == SNAPSHOT.read_bytes()


def test_the_files_of_a_trace_are_never_written_over(folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    trace = load(folder)
    for path in before:
        with pytest.raises(TraceError, match="is part of the trace"):
            trace.export("csv", path)
        with pytest.raises(TraceError, match="is part of the trace"):
            trace.to_html(path)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_is_there_when_it_is_whole_and_not_before(trace, tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_text("what was there")

    def fails(job):
        job.path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export.pprof, "write", fails)
    with pytest.raises(TraceError, match="No space left on device"):
        trace.export("pprof", path)
    assert [one.name for one in tmp_path.iterdir()] == ["x"]
    assert path.read_text() == "what was there"


def test_wrong_words_are_told(trace, tmp_path):
    with pytest.raises(TraceError, match="no format 'xlsx'; there are perfetto, pprof"):
        trace.export("xlsx")
    with pytest.raises(TraceError, match="no table 'rows'; there are buffers"):
        trace.export("csv", tmp_path / "x", table="rows")
    with pytest.raises(TraceError, match="it is a folder"):
        trace.export("csv", tmp_path)


def test_frames_come_apart():
    assert [(one.function, one.file, one.line) for one in frames("/a b/c:1.py:3 in f.<locals>.g\nodd\n/x.py:4")] == [
        ("f.<locals>.g", "/a b/c:1.py", 3),
        ("odd", "", 0),
        ("x.py", "/x.py", 4),
    ]
    assert [one.function for one in frames(None)] == ["place unknown"]
