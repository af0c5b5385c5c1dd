"""The report and the SQL verb, as people call them, and what they say of a run that is known."""

import json
import os
import subprocess
import sys

import pytest

import tenure
from tenure.analysis.summary import POINTS, summary
from tenure.trace.reader import load
from tenure.views.console import outcome, report

# 10 buffers of 1 KiB at one line, one of 64 KiB at another; the peak is in step 1; two buffers stay.
PROGRAM = """
import sys, time
from pathlib import Path
from tenure.trace.recorder import Recorder

recorder = Recorder(Path(sys.argv[1]))
recorder.start()
sink, file = recorder._rows, sys.argv[2]
clock = time.monotonic_ns()
small = [sink.born("torch", 1024, "cpu", "aten::add", (256,), "float32", f"{file}:3 in f", "activation", clock + n * 1000) for n in range(10)]
recorder.advance()
large = sink.born("jax", 65536, "cuda:0", "dot", (128, 128), "float32", f"{file}:5 in g", "", clock + 20_000)
sink.is_a(large, "parameter")
sink.ended(large, "delete", f"{file}:6 in g", clock + 1_000_000_000)
for buffer in small[:8]:
    sink.ended(buffer, "last reference", "", clock + 2_000_000_000)
recorder.advance()
recorder.stop()
"""
SOURCE = "import torch\ndef f():\n    return torch.ones(256)\ndef g():\n    return a @ b\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    (place / "train.py").write_text(SOURCE)
    words = [sys.executable, "-c", PROGRAM, str(place / "trace"), str(place / "train.py")]
    subprocess.run(words, check=True)
    return place / "trace"


@pytest.fixture(scope="module")
def found(folder):
    return summary(load(folder))


def test_a_run_in_numbers(found):
    assert (found.buffers, found.bytes, found.steps) == (11, 10 * 1024 + 65536, 2)
    assert [(amount.name, amount.count) for amount in found.frameworks] == [("jax", 1), ("torch", 10)]
    assert (found.left.count, found.left.bytes) == (2, 2048)
    assert found.seconds == pytest.approx(2, abs=0.01)


def test_the_peak_and_what_made_it(found):
    peak = found.peak
    assert (peak.bytes, peak.device) == (65536, "cuda:0")
    assert peak.step == 1
    assert peak.seconds == pytest.approx(20e-6, abs=1e-3)
    assert [(site.bytes, site.count, site.line, site.function, site.op) for site in peak.sites] == [
        (65536, 1, 5, "g", "dot")
    ]
    assert [(kind.name, kind.bytes) for kind in peak.kinds] == [("parameter", 65536)]
    assert {(device.name, device.bytes) for device in peak.devices} == {("cuda:0", 65536), ("cpu", 10240)}


def test_the_peak_of_another_device(folder):
    peak = tenure.load(folder).peak("cpu")
    assert (peak.bytes, peak.step, peak.past) == (10240, 0, 9216)
    assert [(site.count, site.line, site.kind) for site in peak.sites] == [(10, 3, "activation")]
    with pytest.raises(tenure.TraceError, match="no device 'tpu'; it has .*cuda:0"):
        tenure.load(folder).peak("tpu")


def test_the_curve_keeps_what_does_not_change(found):
    assert len(found.curve) == POINTS
    assert found.curve[0] == 65536
    assert found.curve[POINTS // 4] == 65536
    assert found.curve[POINTS * 3 // 4] == 0
    assert found.curve == tuple(sorted(found.curve, reverse=True))


def test_the_text_says_it(found):
    text = report.render(found)
    assert "Peak memory: 64.0 KiB on cuda:0 at 0.00 s, in step 1" in text
    assert "Summary: leaks not checked. Peak memory is 64.0 KiB on cuda:0." in text
    assert "peak of each device: " in text
    assert "train.py:5 in g  [dot]" in text
    assert "return a @ b" in text
    assert "64.0 KiB       1 x  parameter" in text
    assert "1 process; jax, torch; 2.00 s; 2 steps" in text
    assert "\x1b" not in text
    assert report.render(found, bold=True).startswith("\x1b[1m")
    assert "█" in text
    assert report.render(found, blocks=False).isascii()


def test_the_chart_has_the_shape_of_the_curve(found):
    lines = report._chart(found, blocks=True)
    columns = [line.partition("|")[2].ljust(POINTS) for line in lines[:-1]]
    for point, value in enumerate(found.curve):
        height = sum("▁▂▃▄▅▆▇█".find(column[point]) + 1 for column in columns)
        assert height == -(-value * 8 * len(columns) // max(found.curve))


def test_a_trace_cannot_speak_to_the_terminal(found):
    import dataclasses

    bad = dataclasses.replace(found.peak.sites[0], function="\x1b]0;owned\x07", file="/etc/hosts", line=1)
    evil = dataclasses.replace(found, command=("\x1b[2J",), peak=dataclasses.replace(found.peak, sites=(bad,)))
    text = report.render(evil)
    assert "\x1b" not in text
    assert "\x1b]0" not in report.render(evil, bold=True)
    assert "\x07" not in text
    assert "localhost" not in text  # what is no Python source is not shown


def call(*words, **environment):
    code = (
        "import argparse, importlib, sys\nverb = importlib.import_module('tenure.cli.' + sys.argv[1])\n"
        "parser = argparse.ArgumentParser()\nverb.prepare(parser)\nsys.exit(verb.run(parser.parse_args(sys.argv[2:])))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, env=os.environ | environment, check=False,
    )  # fmt: skip


def test_the_verb_writes_text(folder, found):
    done = call("report", folder, PYTHONIOENCODING="utf-8")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == report.render(found)


def test_where_blocks_cannot_be_written_there_are_none(folder):
    done = call("report", folder, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert b"####" in done.stdout


@pytest.mark.parametrize(
    ("environment", "colour"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, None),
        ({"FORCE_COLOR": "1"}, None),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"NO_COLOR": "", "FORCE_COLOR": ""}, True),
    ],
)
def test_colour_is_for_terminals_that_want_it(found, monkeypatch, environment, colour):
    import io

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for terminal in (True, False):
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        out.isatty = lambda terminal=terminal: terminal
        report.write(found, out)
        out.flush()
        assert (b"\x1b[1m" in out.buffer.getvalue()) == (colour is None or (terminal and colour))


def test_what_was_found_is_told(found):
    from tenure.faults import tn301_loss_accumulated_with_graph, tn501_held_past_last_use
    from tenure.findings import Place

    place = Place("birth", "/somewhere/train.py", 3, "f", "x = y")
    leak = tn301_loss_accumulated_with_graph.FAULT.finding("total keeps a graph", [place])
    late = tn501_held_past_last_use.FAULT.finding("x is held", [place], evidence={"saved": 32768})
    text = report.render(found, [leak, late])
    assert "Summary: 1 leak (TN301). Peak memory is 64.0 KiB on cuda:0 and can drop by 32.0 KiB." in text
    assert (
        text.index("Peak memory:")
        < text.index("error[TN301]: total keeps a graph")
        < text.index("advice[TN501]: x is held")
    )
    assert outcome.is_fault(leak)
    assert not outcome.is_fault(late)


def test_a_rank_that_holds_more_is_named(found):
    import dataclasses

    from tenure.analysis.peak import Rank

    sizes = (1400, 1000, 1000, 990)
    ranks = tuple(Rank(at, 3 - at, size, found.peak.time, size / 1000) for at, size in enumerate(sizes))
    text = report.render(dataclasses.replace(found, peak=dataclasses.replace(found.peak, ranks=ranks)))
    assert "rank 3 has 1.4 times the median: 1.4 KiB" in text
    assert "rank 2 has" not in text


def test_trouble_while_recording_is_a_note(tmp_path):
    code = "import sys; from pathlib import Path; from tenure.trace.recorder import Recorder\nr = Recorder(Path(sys.argv[1])); r.start(); r._rows.trouble('the hook broke'); r.stop()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "trace")], check=True)
    text = report.render(summary(load(tmp_path / "trace")))
    assert "Summary: no tensor was allocated during the recording." in text
    assert "while recording: the hook broke" in text


@pytest.mark.parametrize("form", ["concise", "sarif", "github"])
def test_the_other_forms_are_of_the_findings(folder, form):
    from tenure.views.formats import FORMATS

    done = call("report", folder, "--format", form)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == FORMATS[form](tenure.load(folder).findings())


def test_the_verb_writes_json(folder):
    done = call("report", folder, "--format", "json")
    told = json.loads(done.stdout)
    assert told["peak"]["bytes"] == 65536
    assert told["peak"]["sites"][0]["text"] == "return a @ b"
    assert told["processes"][0]["complete"] is True
    assert len(told["curve"]) == POINTS
    assert told["findings"] == []


def sql(folder, query, *words):
    return call("sql", folder, query, *words)


QUERY = "select line, sum(bytes) as bytes, any_value(stack) as stack from buffers group by line order by line"


def test_sql_as_a_table(folder):
    lines = sql(folder, QUERY).stdout.decode().splitlines()
    assert lines[0].split() == ["line", "bytes", "stack"]
    assert lines[2].split()[:2] == ["3", "10240"]
    assert lines[-1] == "(2 rows)"


def test_sql_as_json_and_csv(folder):
    assert [row["bytes"] for row in json.loads(sql(folder, QUERY, "--format", "json").stdout)] == [10240, 65536]
    lines = sql(folder, QUERY, "--format", "csv").stdout.decode().splitlines()
    assert lines[0] == "line,bytes,stack"
    assert lines[1].startswith("3,10240,")
    times = json.loads(
        sql(folder, "select min(time) as t, null as n, 'nan'::double as x from events", "--format", "json").stdout
    )
    assert times[0]["t"].endswith("+00:00")
    assert (times[0]["n"], times[0]["x"]) == (None, None)


@pytest.mark.parametrize(
    ("query", "says"), [("selct 1", b"Parser Error"), ("select colour from events", b"colour"), ("", b"")]
)
def test_a_bad_query_is_wrong_usage(folder, query, says):
    done = sql(folder, query)
    assert says in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.returncode == (2 if query else 0)
