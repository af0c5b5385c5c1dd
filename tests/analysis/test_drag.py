"""What is held past its last use: the advice is written into the programs, which are run again under another account."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.analysis import escapes
from tenure.traces import load

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
TIGHT = sorted((HERE / "programs" / "tight").glob("*.py"))


def play(*words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_TRACE")}
    done = subprocess.run(
        [sys.executable, str(HERE / "play_programs.py"), *map(str, words)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def edited(text, edits):
    """The text with the edits in it."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        begin, end = (starts[line - 1] + column - 1 for line, column in (edit.start, edit.end))
        text = text[:begin] + edit.text + text[end:]
    return text


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    place = tmp_path_factory.mktemp("drag")
    play("trace", place, *PROGRAMS)
    return {program: load(place / program.stem) for program in PROGRAMS}


@pytest.fixture(scope="module")
def measured(traces, tmp_path_factory):
    """Result and peak of each program: as it is, with its first advice, and with all of it."""
    place = tmp_path_factory.mktemp("cured")
    files = []
    for program, trace in traces.items():
        advice = trace.drag().advice
        for name, chosen in (("as_is", ()), ("first", advice[:1]), ("all", advice)):
            file = place / f"{program.stem}_{name}.py"
            edits = [edit for one in chosen for edit in one.release.edits]
            file.write_text(edited(program.read_text(), edits))
            files.append(file)
    told = json.loads(play("measure", *files).splitlines()[-1])
    return {Path(file).stem: tuple(values) for file, values in told.items()}


def test_there_are_ten_programs():
    assert len(PROGRAMS) == 10


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_advice_does_what_it_promises(traces, measured, program):
    first = traces[program].drag().advice[0]
    (result, before), (cured, after) = measured[f"{program.stem}_as_is"], measured[f"{program.stem}_first"]
    assert cured == result
    assert first.peak == pytest.approx(before, rel=0.01)
    assert before - after == pytest.approx(first.saved, rel=0.05)
    again, least = measured[f"{program.stem}_all"]
    assert again == result
    assert least <= after


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_finding_says_where(traces, program):
    trace = traces[program]
    found = [one for one in trace.findings() if one.code == "TN501"]
    assert len(found) == len(trace.drag().advice)
    finding, advice = found[0], trace.drag().advice[0]
    assert [place.role for place in finding.places][:2] == ["birth", "use"]
    assert finding.places[0].file == str(program)
    assert f"del {advice.names}" in finding.fix.message
    assert finding.fix.edits == advice.release.edits
    assert finding.evidence["saved"] == advice.saved
    assert finding.severity == "advice"


@pytest.fixture(scope="module")
def tight(tmp_path_factory):
    place = tmp_path_factory.mktemp("tight")
    play("tight", place, *TIGHT)
    return place


NAMES = ("deleted", "read_again", "in_a_closure", "kept", "carried", "in_a_list", "returned", "seen_by_name", "a_view_of_it", "iterated", "an_attribute", "seen_by_a_recorder", "argument", "graph_kept", "graph_in_a_local", "graph_retained")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_advice_where_it_would_break_or_free_nothing(tight, name):
    assert [str(one) for one in load(tight / name).drag().advice] == []


SCRIPT = """
import torch

data = torch.ones(2_000_000)
total = data.sum()
wide = torch.zeros(6_000_000) + total
print(wide.sum().item())
"""


@pytest.mark.parametrize("twist", ["", "\ndef later():\n    return data\n", "\n__all__ = ['data']\n"])
def test_names_of_a_script_are_its_own_unless_functions_read_them(tmp_path, twist):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + twist)
    subprocess.run(
        [sys.executable, "-m", "tenure", "run", "--quiet", "-fo", str(tmp_path / "trace"), str(script)], check=True
    )
    advice = load(tmp_path / "trace").drag().advice
    assert [one.text for one in advice] == ([] if twist else ["add `del data` after line 5"])


def test_no_advice_for_a_file_that_was_changed_since(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    subprocess.run(
        [sys.executable, "-m", "tenure", "run", "--quiet", "-fo", str(tmp_path / "trace"), str(script)], check=True
    )
    script.write_text("# a line more\n" + SCRIPT)
    for copies in (tmp_path / "trace").glob("sources-*.jsonl"):
        copies.unlink()  # with its copy, the trace shows the lines that ran
    assert load(tmp_path / "trace").drag().advice == ()


def test_the_lines_with_the_most_drag(traces):
    trace = traces[HERE / "programs" / "halves.py"]
    drag = trace.drag()
    rows = trace.sql("""
        select line, sum(bytes * (epoch_us(ended) - epoch_us(coalesce(last_use, born))))::double / 1e6 as drag
        from buffers where ended is not null group by line order by drag desc limit 3""").to_pylist()
    assert [(one.line, pytest.approx(one.byte_seconds)) for one in drag.lines[:3]] == [
        (r["line"], r["drag"]) for r in rows
    ]
    assert drag.past == trace.peak().past
    assert "del big" in str(drag)


def test_of_a_long_trace_some_stretches_are_played(traces, monkeypatch):
    from tenure.analysis import relief

    trace = traces[HERE / "programs" / "rebound.py"]
    whole = trace.drag().advice[0]
    monkeypatch.setattr(relief, "ALL", 0)
    monkeypatch.setattr(relief, "_AROUND", 1)
    part = load(trace.path).drag().advice[0]
    assert (part.release, part.saved) == (whole.release, whole.saved)


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("y = torch.nn.functional.relu(x)", True),
        ("from torch import nn", True),
        ("loss.backward()", True),
        ("y = tf.nn.relu(x)", False),
        ("y = jax.nn.softmax(x)", False),
    ],
)
def test_functions_named_nn_of_tensorflow_and_jax_record_no_graph(text, uses):
    assert bool(escapes._AUTOGRAD.search(text)) is uses
