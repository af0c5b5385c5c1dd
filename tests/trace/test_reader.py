"""What a trace holds, read back, against what happened; and the pages that explain the format."""

import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from made_traces import make, make_two

from tenure.errors import TraceError
from tenure.trace import events
from tenure.trace.reader import load

DOCS = Path(__file__).parents[2] / "docs" / "trace-format.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace") / "run"
    return folder, make_two(folder)


@pytest.fixture(scope="module")
def trace(made):
    return load(made[0])


def happened(made):
    return [row for run in made[1] for row in run["buffers"]]


def micros(moment):
    return None if moment is None else (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_a_trace_knows_its_processes(trace, made):
    assert len(trace.processes) == 2
    assert {process.rank for process in trace.processes} == {None, 3}
    assert all(process.complete and process.events for process in trace.processes)
    assert trace.notes == ()
    assert trace.meta["format"] == "tenure trace"
    ranked = next(process for process in trace.processes if process.rank == 3)
    assert (ranked.local_rank, ranked.world_size) == (1, 8)


def test_every_buffer_is_as_it_happened(trace, made):
    found = trace.buffers().to_pylist()
    times = ("born", "last_use", "ended")
    got = [{key: micros(row[key]) if key in times else row[key] for key in happened(made)[0]} for row in found]

    def order(row):
        return row["born"], row["buffer"]

    assert sorted(got, key=order) == sorted(happened(made), key=order)
    assert {row["process"] for row in found} == {process.pid for process in trace.processes}


def test_sites_come_apart(trace):
    row = trace.sql(
        "select site, file, line, function, end_file, end_line from buffers where ended is not null limit 1"
    )
    (found,) = row.to_pylist()
    assert found["site"] == f"{found['file']}:{found['line']} in {found['function']}"
    assert (found["file"], found["end_file"], found["function"]) == (
        "/somewhere/train.py",
        "/somewhere/train.py",
        "step",
    )


def test_a_site_without_a_function_or_a_line_is_no_harm():
    import pyarrow as pa

    from tenure.trace.streams import _apart

    sites = pa.array(["C:\\a b\\x.py:3 in <listcomp>", "strange", "/x.py:12", "", None, "/x:1 in y.py:3 in f"])
    apart = _apart(sites.dictionary_encode())
    assert apart["file"].to_pylist() == ["C:\\a b\\x.py", None, "/x.py", None, None, "/x:1 in y.py"]
    assert apart["line"].to_pylist() == [3, None, 12, None, None, 3]
    assert apart["function"].to_pylist() == ["<listcomp>", None, None, None, None, "f"]


def test_live_bytes_are_what_was_alive(trace, made):
    rows = happened(made)
    curve = trace.live_bytes().to_pylist()
    for moment in curve[:: max(1, len(curve) // 50)]:
        at = micros(moment["time"])
        alive = [row for row in rows if row["born"] <= at and (row["ended"] is None or row["ended"] > at)]
        assert moment["total"] == sum(row["bytes"] for row in alive)
        assert moment["bytes"] == sum(row["bytes"] for row in alive if row["device"] == moment["device"])


def test_alive_at_a_time_and_at_seconds(trace, made):
    rows = happened(made)
    first = trace.sql("select min(time) as t from events").to_pylist()[0]["t"]
    moment = trace.sql("select quantile_disc(time, 0.5) as t from events").to_pylist()[0]["t"]
    at = micros(moment)
    expected = {(row["buffer"], row["born"]) for row in rows if row["born"] <= at < (row["ended"] or at + 1)}
    assert expected

    def told(table):
        return {(row["buffer"], micros(row["born"])) for row in table.to_pylist()}

    assert told(trace.alive(moment)) == expected
    assert told(trace.alive((moment - first).total_seconds())) == expected
    sizes = trace.alive(moment)["bytes"].to_pylist()
    assert sizes == sorted(sizes, reverse=True)
    assert trace.alive(10_000).num_rows == 0
    with pytest.raises(TypeError):
        trace.alive("yesterday")


def test_alive_at_the_end_of_a_step(tmp_path):
    from tenure.trace.folders import take
    from tenure.trace.writer import Stream

    take(tmp_path)
    stream = Stream(tmp_path, "events-7", {"version": "1", "pid": "7"})
    words = events.Dictionary()
    birth, end, step = (words["event"].number(name) for name in ("birth", "end", "step"))
    columns = {
        "time": [1, 5, 6, 8, 9, 10, 11],
        "event": [birth, step, birth, end, birth, step, birth],
        "buffer": [1, None, 2, 1, 3, None, 4],
        "bytes": [8, None, 16, None, 32, None, 64],
        "step": [0, 0, 1, 1, 1, 1, 2],
    }
    stream.write(words.batch(columns, 7))
    stream.close()
    trace = load(tmp_path)
    assert [trace.alive(number)["buffer"].to_pylist() for number in (0, 1, 2)] == [[1], [3, 2], []]
    assert trace.alive(0.000_007)["buffer"].to_pylist() == [2]  # since the first event, at 1


def test_steps_follow_each_other(trace, made):
    steps = trace.steps().to_pylist()
    assert len(steps) == sum(run["steps"] for run in made[1])
    for pid in {row["process"] for row in steps}:
        mine = [row for row in steps if row["process"] == pid]
        assert [row["step"] for row in mine] == list(range(len(mine)))
        assert all(a["ended"] == b["began"] for a, b in zip(mine, mine[1:]))
    rows = happened(made)
    done = {row["step"] for row in steps}
    assert sum(row["births"] for row in steps) <= len(rows)
    assert sum(row["births"] for row in steps if row["step"] == 0) == sum(row["step"] == 0 for row in rows)
    assert 0 in done


def test_events_can_be_narrow(trace):
    table = trace.events(["event", "bytes", "line"]).read_all()
    assert table.column_names == ["event", "bytes", "line"]
    assert table.num_rows == trace.events().read_all().num_rows == sum(process.events for process in trace.processes)
    whole = trace.events().read_all()
    assert table["line"].to_pylist() == whole["line"].to_pylist()
    assert whole.column_names == ["process", *events.COLUMNS, "file", "line", "function"]
    with pytest.raises(ValueError, match="no column 'colour'"):
        trace.events(["colour"])


@pytest.mark.parametrize(
    "query",
    [
        "from events",
        "select events from events limit 1",
        "select columns('.*_site') from buffers limit 1",
        "with e as (select * from events) select count(*) from e a join e b using (buffer, process)",
        "select count(*) from events where event = 'birth' and time > (select min(time) from events)",
        "create table mine as select op from events; select op, count(*) from mine group by op",
        "describe events",
        "select step, count(*) from events group by rollup (step)",
    ],
)
def test_queries_see_all_that_they_name(trace, query):
    """Only the columns that a plan reads are read: the answer must be that over a copy of everything."""
    copied = trace.events().read_all()
    found = trace.sql(query)
    if "buffers" not in query:
        with duckdb.connect() as db:
            db.execute("set timezone='UTC'")
            db.register("events", copied)
            expected = db.sql(query).to_arrow_table()
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert found.num_rows


def test_sql_does_not_see_the_program(trace):
    secret = trace.events(["time"]).read_all()  # noqa: F841
    with pytest.raises(duckdb.Error, match="secret"):
        trace.sql("select * from secret")


def test_one_stream_can_be_read_alone(trace):
    process = trace.processes[1]
    alone = load(process.path)
    assert alone.processes == (process,)
    assert alone.events().read_all().num_rows == process.events


def test_nothing_is_imported_but_what_reading_needs(made):
    code = (
        "import sys\nfrom tenure.trace.reader import load\nload(sys.argv[1]).buffers()\n"
        # not pandas: where it is installed, pyarrow imports it to make a scalar
        "print([name for name in ('torch', 'tensorflow', 'jax', 'pickle5', 'cloudpickle') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(made[0])], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# ------------------------------------------------------------------------------------------ what is no trace


@pytest.fixture
def copy(made, tmp_path):
    return Path(shutil.copytree(made[0], tmp_path / "copy"))


def change_meta(folder, **changes):
    file = folder / "meta.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def wrong(folder):
    with pytest.raises(TraceError) as caught:
        load(folder)
    return str(caught.value)


def test_what_is_not_there_is_said(tmp_path):
    assert "does not exist" in wrong(tmp_path / "nothing")
    assert "contains no trace" in wrong(tmp_path)
    (tmp_path / "x.txt").write_text("hello")
    assert "x.txt is not a trace" in wrong(tmp_path / "x.txt")
    assert wrong("a\0b")
    assert wrong(tmp_path / "nothing").count("nothing") == 1


def test_an_arrow_stream_of_somebody_else(tmp_path):
    import pyarrow as pa

    table = pa.table({"a": [1, 2]})
    with pa.ipc.new_stream(str(tmp_path / "x.arrows"), table.schema) as writer:
        writer.write_table(table)
    assert "no trace of tenure" in wrong(tmp_path)


def test_a_newer_version_asks_for_an_upgrade(copy):
    change_meta(copy, version=events.VERSION + 1)
    assert re.search(r"meta\.json is of format version 2, .* upgrade", wrong(copy))


@pytest.mark.parametrize("version", [None, "x", -1, 0, True, [1], "9" * 5000, 1.5])
def test_a_version_that_is_none(copy, version):
    change_meta(copy, version=version)
    assert "meta.json is damaged" in wrong(copy)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000, "\xff", '{"format": "other"}'])
def test_a_description_that_is_none(copy, text):
    (copy / "meta.json").write_text(text, encoding="latin-1")
    assert "meta.json" in wrong(copy)


def test_a_folder_without_its_description_is_read(copy):
    (copy / "meta.json").unlink()
    assert load(copy).notes == ("meta.json is missing: the trace is read without it",)


def test_damage_is_placed(copy):
    file = next(copy.glob("*.arrows"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    told = wrong(copy)
    low, high = (int(text.replace(",", "")) for text in re.findall(r"byte ([\d,]+)", told))
    assert low <= len(data) // 2 < high
    assert str(file) in told
    assert "copy it again" in told


def test_a_stream_that_lost_its_tail_is_said(copy):
    file = next(copy.glob("*.arrows"))
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[: size // 2])
    told = wrong(copy)
    assert f"it ends at byte {size // 2:,}, but" in told
    file.with_suffix(".sums").unlink()
    whole = load(copy)
    assert any("did not close its stream" in note for note in whole.notes)
    assert any("is missing or empty" in note for note in whole.notes)
    assert 0 < whole.events().read_all().num_rows


def test_a_stream_that_was_being_written_is_read_to_its_last_batch(copy):
    file = next(copy.glob("*.arrows"))
    sums = file.with_suffix(".sums")
    lines = sums.read_text().splitlines(keepends=True)
    end = int(lines[1].split()[0])  # of the first batch: on a busy machine there are few
    before = next(process for process in load(copy).processes if process.path == file)
    file.write_bytes(file.read_bytes()[: end + 100])  # killed inside of a batch,
    sums.write_text("".join(lines[:2]) + lines[2][:5])  # or of its sum
    trace = load(copy)
    process = next(process for process in trace.processes if process.path == file)
    assert not process.complete
    assert 0 < process.events < before.events
    assert [note for note in trace.notes if f"100 bytes after its last complete batch (byte {end:,})" in note]


def test_a_process_that_wrote_nothing_is_noted(copy):
    (copy / "events-1.arrows").write_bytes(b"")
    (copy / "events-1.sums").write_bytes(b"")
    trace = load(copy)
    assert trace.notes == ("events-1.arrows contains no complete batch: its process exited before it could write one",)
    assert "contains no events" in wrong(copy / "events-1.arrows")


def test_one_process_twice(copy):
    file = next(copy.glob("*.arrows"))
    shutil.copy(file, copy / "events-0.arrows")
    shutil.copy(file.with_suffix(".sums"), copy / "events-0.sums")
    assert "the same stream twice" in wrong(copy)


def test_two_programs_with_one_pid(tmp_path):
    """As by exec: the buffers of both have the same numbers."""
    from tenure.trace.folders import take
    from tenure.trace.writer import Stream

    take(tmp_path)
    for clock, size in ((1, 8), (2, 16)):
        stream = Stream(tmp_path, "events-7", {"version": "1", "pid": "7", "clock_offset_ns": str(clock)})
        words = events.Dictionary()
        words["event"].number("birth")
        stream.write(words.batch({"time": [1], "buffer": [1], "bytes": [size], "event": [0]}, 1))
        stream.close()
    trace = load(tmp_path)
    assert [(process.number, process.pid) for process in trace.processes] == [(7, 7), (10_000_000_007, 7)]
    assert sorted(trace.buffers()["bytes"].to_pylist()) == [8, 16]


def test_a_batch_that_claims_too_much_is_not_unpacked(copy, monkeypatch):
    from tenure.trace import messages

    monkeypatch.setattr(messages, "_LARGEST_BODY", 64)
    assert re.search(r"damaged at byte [\d,]+: a (batch that claims|message of)", wrong(copy))


def test_numbers_that_point_nowhere_do_not_reach_duckdb(tmp_path):
    """A writer's mistake, with right sums: the words of a row that do not exist."""
    import pyarrow as pa

    from tenure.trace.folders import take
    from tenure.trace.writer import Stream

    take(tmp_path)
    stream = Stream(tmp_path, "events-7", {"version": "1", "pid": "7"})
    columns = {"time": [1, 2], "buffer": [1, 1], "bytes": [8, None]}
    words = events.Dictionary()
    words["event"].number("birth")
    stream.write(words.batch({**columns, "event": [0, 2_000_000_000]}, 2))
    stream.close()
    trace = load(tmp_path)
    with pytest.raises(TraceError, match="cannot be read"):
        trace.sql("select event, count(*) from events group by event")
    with pytest.raises(TraceError, match="cannot be read"):
        trace.events().read_all()
    assert pa.total_allocated_bytes() < 1 << 28


@pytest.mark.parametrize("wrong_one", [{"time": [-5]}, {"time": [1 << 62]}, {"bytes": [-1]}, {"bytes": [1 << 62]}])
def test_numbers_that_cannot_be_are_damage(tmp_path, wrong_one):
    from tenure.trace.folders import take
    from tenure.trace.writer import Stream

    take(tmp_path)
    stream = Stream(tmp_path, "events-7", {"version": "1", "pid": "7"})
    words = events.Dictionary()
    words["event"].number("birth")
    stream.write(words.batch({"time": [1], "buffer": [1], "bytes": [8], "event": [0], **wrong_one}, 1))
    stream.close()
    with pytest.raises(TraceError, match="contains impossible values"):
        load(tmp_path).events().read_all()
    with pytest.raises(TraceError, match="contains impossible values"):
        load(tmp_path).buffers()


# ------------------------------------------------------------------------------------------ the page


def snippets():
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("code", snippets(), ids=lambda code: code.splitlines()[0][:40])
def test_the_examples_of_the_page_run(code, made, tmp_path):
    for module in ("pandas", "polars"):
        if f"import {module}" in code or ".df()" in code:
            pytest.importorskip(module)
    shutil.copytree(made[0], tmp_path / "my-trace")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_page_tells_every_column():
    text = DOCS.read_text(encoding="utf-8")
    for name in events.COLUMNS:
        assert f"| `{name}` |" in text, name
    for name in (*events.EVENTS, *events.KINDS):
        assert f"`{name}`" in text, name
    assert f"version {events.VERSION}" in text


def test_the_page_tells_every_column_of_the_views(trace):
    text = DOCS.read_text(encoding="utf-8")
    for view in ("buffers", "steps", "live"):
        for name in trace.sql(f"select * from {view} limit 0").column_names:
            assert f"`{name}`" in text, (view, name)


def test_a_trace_of_nothing(tmp_path):
    told = make(tmp_path / "empty", count=0)
    assert told["buffers"] == []
    trace = load(tmp_path / "empty")
    assert trace.buffers().num_rows == trace.live_bytes().num_rows == trace.steps().num_rows == 0


def test_a_duckdb_that_would_crash_is_not_used(made, tmp_path, monkeypatch, capsys):
    import tomllib

    from tenure import cli
    from tenure.trace.database import OLDEST

    monkeypatch.chdir(tmp_path)
    project = tomllib.loads((DOCS.parents[1] / "pyproject.toml").read_text())["project"]
    assert f"duckdb>={'.'.join(map(str, OLDEST))}" in project["dependencies"]
    run = str(made[0])
    for version in ("1.5.0", "1.4.5", "0.10.3"):
        monkeypatch.setattr(duckdb, "__version__", version)
        for words in (["sql", run, "select 1"], ["export", run, "--to", "csv"], ["export", run, "--to", "perfetto"]):
            assert cli.main(words) == 2
            assert f"tenure: DuckDB {version} is too old" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    for version in ("1.5.1", "1.10.0.dev3", "2.0.0"):
        monkeypatch.setattr(duckdb, "__version__", version)
        assert load(run).sql("select 1 as one").to_pylist() == [{"one": 1}]
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert cli.main(["sql", run, "select 1"]) == 2
    assert "install it with: pip install 'duckdb>=1.5.1'" in capsys.readouterr().err
