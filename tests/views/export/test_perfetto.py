"""The export for Perfetto, asked in Perfetto's own trace processor, against what tenure says."""

import pytest
from export_words import HOSTILE, SNAPSHOT
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Message

from tenure.traces import load
from tenure.views.export import perfetto


@pytest.fixture(scope="session")
def written(folder, tmp_path_factory):
    return load(folder).export("perfetto", tmp_path_factory.mktemp("perfetto") / "run.pftrace")


@pytest.fixture
def opened(trace, written, shell):
    return trace, shell.open(written)


def test_nothing_is_wrong_with_it_in_the_eyes_of_perfetto(opened):
    _, shell = opened
    assert shell.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    assert shell.query("select count(*) as n from counter")[0]["n"] > 500


def test_it_is_what_perfettos_schema_says(trace, tmp_path):
    message = Message.FromString(trace.export("perfetto", tmp_path / "x").read_bytes())
    assert message.ByteSize() == (tmp_path / "x").stat().st_size
    again = Message()
    again.CopyFrom(message)
    again.DiscardUnknownFields()
    assert again.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)


def test_processes_are_there_by_name(opened):
    trace, shell = opened
    rows = shell.query("select pid, name from process where name is not null")
    assert {row["pid"] for row in rows} == {process.pid for process in trace.processes}
    assert any(row["name"].startswith("rank 3: ") for row in rows)


def test_counters_reach_the_peaks_that_tenure_finds(opened):
    trace, shell = opened
    query = "select t.name, max(value) as most from counter c join track t on c.track_id = t.id group by t.name, t.id"
    rows = shell.query(query)
    for device in ("cpu", "cuda:0"):
        most = [row["most"] for row in rows if row["name"] == f"live bytes on {device}, all processes"]
        assert most == [trace.peak(device).bytes]
        each = sorted(row["most"] for row in rows if row["name"] == f"live bytes on {device}")
        number = trace.scanned.words("device").index(device)
        assert each == sorted(trace.scanned.peaks(at)[number][0] for at in range(len(trace.processes)))


def test_counters_are_the_bytes_alive_at_every_moment(opened):
    trace, shell = opened
    name = "live bytes on cuda:0, all processes"
    rows = shell.query(
        f"select ts, value from counter c join track t on c.track_id = t.id where t.name = '{name}' order by ts"
    )
    live = trace.sql(
        "select epoch_us(time) * 1000 as ts, bytes as value from live where device = 'cuda:0' order by time"
    )
    assert rows == live.to_pylist()


def test_kinds_add_up(opened):
    trace, shell = opened
    query = "select t.name, max(value) as most from counter c join track t on c.track_id = t.id where t.name like 'cpu: %' group by 1"
    kinds = {
        row["k"]
        for row in trace.sql("select distinct kind as k from buffers where device = 'cpu' and bytes > 0").to_pylist()
    }
    assert {row["name"].removeprefix("cpu: ") for row in shell.query(query)} == kinds


def test_every_life_is_a_slice_with_what_became_of_it(opened):
    trace, shell = opened
    query = """select count(*) as n, sum(dur) as dur,
        sum((select int_value from args a where a.arg_set_id = s.arg_set_id and key = 'debug.bytes')) as bytes
        from slice s where name like '%float32%'"""
    last = trace.scanned.facts[1]
    expected = trace.sql(
        f"""select count(*) as n, sum(bytes)::bigint as bytes, (1000 * sum(coalesce(epoch_us(ended), {last}) - epoch_us(born)))::bigint
        as dur from buffers where bytes > 0"""
    ).to_pylist()
    assert shell.query(query) == expected
    (row,) = trace.sql("select * from buffers where bytes > 0 and uses > 2 and ended is not null limit 1").to_pylist()
    told = shell.query(
        f"""select key, coalesce(string_value, int_value) as value from args where arg_set_id in (
            select s.arg_set_id from slice s join args a using (arg_set_id) join args b using (arg_set_id)
            where a.key = 'debug.buffer' and a.int_value = {row["buffer"]}
            and b.key = 'debug.process' and b.int_value = {row["process"]})"""
    )
    told = {one["key"].removeprefix("debug."): one["value"] for one in told}
    for name in ("bytes", "kind", "dtype", "shape", "op", "stack", "uses", "last_op", "last_site", "end_site", "cause"):
        assert told[name] == row[name], name


def test_what_comes_after_the_last_use_is_a_slice_inside(opened):
    trace, shell = opened
    last = trace.scanned.facts[1]
    expected = trace.sql(
        f"""select sum(1000 * (coalesce(epoch_us(ended), {last}) - epoch_us(coalesce(last_use, born))))::bigint as dur
        from buffers where bytes > 0"""
    ).to_pylist()
    assert shell.query("select sum(dur) as dur from slice where name = 'after its last use'") == expected
    assert shell.query("select distinct depth from slice where name = 'after its last use'") == [{"depth": 1}]


def test_lives_of_one_line_are_on_tracks_of_one_name(opened):
    trace, shell = opened
    sites = {row["site"] for row in trace.sql("select distinct site from buffers where bytes > 0").to_pylist()}
    rows = shell.query(
        "select distinct t.name from slice s join track t on s.track_id = t.id where s.name like '%float32%'"
    )
    assert {row["name"] for row in rows} == sites


def test_steps_marks_and_findings_are_there(opened):
    trace, shell = opened
    steps = trace.sql(
        "select count(*) as n, sum(1000 * (epoch_us(ended) - epoch_us(began)))::bigint as dur from steps"
    ).to_pylist()
    assert shell.query("select count(*) as n, sum(dur) as dur from slice where name glob 'step [0-9]*'") == steps
    assert shell.query("select count(*) as n from slice where name = 'the end' and dur = 0") == [{"n": 2}]
    found = shell.query("select s.name, ts from slice s join track t on s.track_id = t.id where t.name = 'findings'")
    top = trace.peak()
    assert found[0]["name"].startswith("peak: ")
    assert found[0]["ts"] == round(top.time.timestamp() * 1e6) * 1000
    assert [row["name"].split()[0] for row in found[1:]] == [finding.code for finding in trace.findings()]


def test_of_very_many_moments_fewer_are_told_and_the_peak_stays(trace, shell, tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto, "_EXACT", 10)
    monkeypatch.setattr(perfetto, "_POINTS", 20)
    shell.open(trace.export("perfetto", tmp_path / "x"))
    query = (
        "select max(value) as most, count(*) as n from counter c join track t on c.track_id = t.id where t.name = '{}'"
    )
    (row,) = shell.query(query.format("live bytes on cpu, all processes"))
    assert row["most"] == trace.peak("cpu").bytes
    assert row["n"] <= 42


def test_a_snapshot_has_no_drag(shell, tmp_path):
    trace = load(SNAPSHOT)
    shell.open(trace.export("perfetto", tmp_path / "x"))
    assert shell.query("select count(*) as n from slice where name = 'after its last use'") == [{"n": 0}]
    most = shell.query(
        "select max(value) as most from counter c join track t on c.track_id = t.id where t.name = 'live bytes on cuda:0'"
    )
    assert most == [{"most": trace.peak().bytes}]
    assert shell.query("select count(*) as n from slice where name glob 'step *'") == [{"n": 3}]


def test_hostile_words_are_text(hostile, shell, tmp_path):
    path = hostile.export("perfetto", tmp_path / "x")
    message = Message.FromString(path.read_bytes())
    interned = {
        one.str.decode() for packet in message.packet for one in packet.interned_data.debug_annotation_string_values
    }
    assert set(HOSTILE) <= interned
    assert {packet.track_event.name for packet in message.packet} >= set(HOSTILE)  # the marks
    assert path.stat().st_size < 20 * len(HOSTILE[-1])  # a long word goes by number
    shell.open(path)
    assert shell.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    marks = {row["name"] for row in shell.query("select name from slice where dur = 0")}
    assert {word for word in HOSTILE if "\0" not in word} <= marks
