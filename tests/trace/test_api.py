"""`tenure.trace`, `step` and `mark`, called by the program itself."""

import os
import subprocess
import sys
import textwrap

import pytest

import tenure
from tenure.trace import recorder, streams

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}


def events(folder):
    found = []
    for path in sorted(folder.glob("*.arrows")):
        stream = streams.open_stream(path, [])
        assert stream.process.complete
        for batch in stream.read(["event", "name", "step"]):
            found += [(row["event"], row["name"], row["step"]) for row in batch.to_pylist()]
    # Marks first: rows are only nearly in the order of time, and a recorder may write steps with rows of its own.
    own = ("recording ", "trouble: ", "partly: peak: ")  # a module called torch, as some tests have, has no recorder
    told = [row for row in found if row[0] in ("mark", "step") and not (row[1] or "").startswith(own)]
    return sorted(told, key=lambda row: row[0])


def test_a_block_is_recorded(tmp_path):
    with tenure.trace(tmp_path / "t") as t:
        tenure.mark("here")
        tenure.step()
        tenure.step(7)
        tenure.mark("there")
    assert t.path == tmp_path / "t"
    assert events(t.path) == [("mark", "here", 0), ("mark", "there", 7), ("step", None, 0), ("step", None, 1)]
    assert recorder.active() is None
    assert "TENURE_TRACE" not in os.environ
    assert "TENURE_RUN" not in os.environ


def test_an_exception_ends_the_recording_and_passes(tmp_path):
    with pytest.raises(ZeroDivisionError), tenure.trace(tmp_path / "t") as t:
        tenure.mark("before")
        raise ZeroDivisionError
    assert events(t.path) == [("mark", "before", 0)]


def test_a_name_that_is_no_text_is_spelled_out(tmp_path):
    with tenure.trace(tmp_path / "t") as t:
        tenure.mark("caf\udce9")
        tenure.mark("after")
    assert events(t.path) == [("mark", "caf\\udce9", 0), ("mark", "after", 0)]


def test_a_fault_of_the_writer_ends_the_trace_and_is_told(tmp_path):
    text = """
import os, tenure
from tenure.trace import recorder
with tenure.trace("t") as t:
    os.unlink(next(t.path.glob("*.arrows")))
    os.closerange(3, 4096)
    tenure.mark("lost")
    recorder.active().flush()
    tenure.mark("lost too")
print("on")
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "on\n"
    assert done.stderr.count("cannot write to the trace") == 1
    assert str(tmp_path / "t") in done.stderr


def test_two_traces_one_after_the_other(tmp_path):
    for name in ("one", "two"):
        with tenure.trace(str(tmp_path / "t"), replace=True) as t:
            tenure.mark(name)
    assert events(t.path) == [("mark", "two", 0)]
    with (
        pytest.raises(tenure.TraceError, match="already contains a trace; pass -f .in Python: replace=True."),
        tenure.trace(t.path),
    ):
        pass
    assert events(t.path) == [("mark", "two", 0)]


def test_two_at_once_are_refused(tmp_path):
    with tenure.trace(tmp_path / "t") as t:
        with pytest.raises(tenure.TraceError, match="traced already"):
            with tenure.trace(tmp_path / "other"):
                pass
        tenure.mark("still")
    assert events(t.path) == [("mark", "still", 0)]


def test_only_so_many_steps(tmp_path):
    with tenure.trace(tmp_path / "t", steps=2) as t:
        for n in range(5):
            tenure.mark(str(n))
            tenure.step()
    stopped = "partly: leaks, peak: recording stopped after 2 steps, as requested"
    rows = [("mark", "0"), ("mark", "1"), ("mark", stopped), ("step", None), ("step", None)]
    assert [row[:2] for row in events(t.path)] == rows


MADE_AND_USED = {
    "torch": "x = module.ones(64, 64)\ny = x + x",
    "jax": "x = module.numpy.ones((64, 64))\ny = x + x",
    "tensorflow": "x = module.ones((64, 64))\ny = x + x",
}


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_use_belongs_to_the_step_it_happened_in(tmp_path, framework, native):
    """Also if it is written later: the writer looks when it does."""
    if framework not in MADE_AND_USED:
        pytest.skip(f"{framework} has no recorder")
    if (framework, native) == ("jax", "0"):
        pytest.skip("without the native part no uses of JAX's arrays are seen")
    script = f"""
import {framework} as module
import tenure
from tenure.trace import recorder
with tenure.trace({str(tmp_path / "t")!r}):
    recorder.active().interval = 3600.0
    tenure.step(5)
{textwrap.indent(MADE_AND_USED[framework], "    ")}
    tenure.step(6)
    recorder.active().flush()
"""
    environment = {**CLEAN, "TENURE_NATIVE": native, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trace = tenure.load(tmp_path / "t")
    rows = trace.sql("select step, bytes, buffer from events where event = 'birth' or event = 'use'").to_pylist()
    born = {row["buffer"]: row["step"] for row in rows if row["bytes"] == 64 * 64 * 4}
    assert set(born.values()) == {5}
    used = trace.sql("select buffer, step from events where event = 'use'").to_pylist()
    assert {row["step"] for row in used if row["buffer"] in born} == {5}


def test_without_a_trace_they_do_nothing():
    tenure.step()
    tenure.step(3)
    tenure.mark("nowhere")
    assert recorder.active() is None


def test_a_name_is_made_if_none_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/some/where/train.py"])
    for name in ("tenure-train", "tenure-train-2"):
        with tenure.trace() as t:
            pass
        assert t.path == tmp_path / name


def test_bad_arguments(tmp_path):
    with pytest.raises(TypeError, match="colour"):
        tenure.trace(tmp_path, colour="red")
    with pytest.raises(tenure.TraceError, match="0 steps"):
        tenure.trace(tmp_path, steps=0)
    with pytest.raises(tenure.TraceError, match="has not begun"):
        tenure.trace(tmp_path).path  # noqa: B018
    (tmp_path / "file").write_text("")
    with pytest.raises(tenure.TraceError, match="cannot write a trace to"):
        with tenure.trace(tmp_path / "file"):
            pass
    assert recorder.active() is None


def program(folder, text, *before):
    (folder / "torch.py").write_text("__version__ = '0'\n")
    (folder / "s.py").write_text(text)
    done = subprocess.run([sys.executable, *before, "s.py"], cwd=folder, capture_output=True, text=True, env=CLEAN)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_children_join(tmp_path):
    text = """
import subprocess, sys, tenure
with tenure.trace("t"):
    tenure.mark("parent")
    subprocess.run([sys.executable, "-c", "import torch, tenure; tenure.mark('child')"], check=True)
subprocess.run([sys.executable, "-c", "import torch, tenure; tenure.mark('later')"], check=True)
"""
    program(tmp_path, text)
    assert sorted(events(tmp_path / "t")) == [("mark", "child", 0), ("mark", "parent", 0)]


def test_a_block_of_a_recorded_program_is_part_of_its_trace(tmp_path):
    text = (
        "import tenure\nwith tenure.trace('mine') as t:\n    tenure.mark('in')\nprint(t.path.name)\ntenure.mark('out')"
    )
    assert program(tmp_path, text, "-m", "tenure", "run", "--quiet", "-o", "t") == "t\n"
    names = [name for _, name, _ in events(tmp_path / "t")]
    assert names == ["trace mine begins", "in", "trace mine ends", "out"]
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("first", ["tenure.trace.api", "tenure.trace.recorder", "tenure.trace"])
def test_the_name_is_callable_whatever_was_imported_before(tmp_path, first):
    text = (
        f"import tenure, {first}\nfrom tenure import trace\nwith tenure.trace('t'), open('s.py'):\n    pass\ntrace('t')"
    )
    program(tmp_path, text)
    program(tmp_path, f"import tenure\ntenure.trace('t')\nimport {first}\ntenure.trace('t')")


def test_recording_imports_nothing_large_of_its_own(tmp_path):
    """pyarrow looks for pandas when it makes an array its own way: a second, in every program that is watched."""
    code = (
        "import sys, tenure, torch\n"
        f"with tenure.trace({str(tmp_path / 't')!r}):\n"
        "    for _ in range(100): torch.ones(100).sum()\n"
        "    tenure.step(); tenure.mark('here')\n"
        "print([name for name in ('pandas', 'duckdb', 'tensorflow', 'jax') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
