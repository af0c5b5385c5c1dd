"""The folder of a trace: what the user keeps there is never touched, whoever names it."""

import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tenure.errors import TraceError
from tenure.trace import events, folders, told
from tenure.trace.writer import Stream

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
PRECIOUS = {"config.json": "{}", "metrics.jsonl": '{"loss": 1}\n', "old.tmp": "x", "weights.arrows": "y", "a.sums": "z"}


def texts(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def results(tmp_path):
    """A folder of results, whose files end as a trace's do."""
    (tmp_path / "torch.py").write_text("__version__ = '0'\n")  # by its name a framework
    (tmp_path / "results").mkdir()
    for name, text in PRECIOUS.items():
        (tmp_path / "results" / name).write_text(text)
    return tmp_path / "results"


@pytest.fixture
def trace(tmp_path):
    """A trace of one process, with all that it may leave."""
    made = tmp_path / "made"
    folders.take(made)
    stream = Stream(made, "events-7", {"version": "1", "pid": "7"})
    stream.close()
    for kind in events.BESIDE:
        (made / f"events-7{kind}").touch()
    for kind in told.KINDS:
        (made / f"{kind}-7.jsonl").write_text("{}\n")
    return made


@pytest.mark.parametrize("how", ["run", "run -f", "TENURE_TRACE", "tenure.trace", "replace"])
def test_results_of_the_user_stay(results, how):
    inside = {"tenure.trace": "", "replace": ", replace=True"}.get(how)
    text = "import torch; print('it ran')"
    if inside is not None:
        text = f"import tenure, torch\ntry:\n    with tenure.trace('results'{inside}): pass\nexcept tenure.TraceError as e: print(e)"
    (results.parent / "s.py").write_text(text)
    words = {"run": ["run", "-o", "results"], "run -f": ["run", "-fo", "results"]}.get(how)
    command = [sys.executable, *(["-m", "tenure", *words] if words else []), "s.py"]
    env = CLEAN | ({"TENURE_TRACE": "results"} if how == "TENURE_TRACE" else {})
    done = subprocess.run(command, cwd=results.parent, capture_output=True, text=True, env=env)
    assert texts(results) == PRECIOUS
    assert "results: it contains a.sums; use a new or empty folder, such as results-2\n" in done.stdout + done.stderr
    assert done.returncode == (2 if words else 0)
    if how == "TENURE_TRACE":
        assert done.stdout == "it ran\n"


def test_a_new_and_an_empty_folder_are_used(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    for name in ("deep/new", "link"):
        folders.take(tmp_path / name)
        assert folders.described(tmp_path / name)["format"] == "tenure trace"


def test_a_trace_is_replaced_only_if_asked_for_and_then_nothing_else_is(trace, tmp_path):
    before = texts_of_any(trace)
    with pytest.raises(TraceError, match=r"made already contains a trace; .* such as .*made-2$"):
        folders.take(trace)
    assert texts_of_any(trace) == before
    theirs = {"notes.txt": "mine", "findings-8.jsonl": "{}", "suspects-7.json": "[]", "events-x.sums": "1 2"}
    for name, text in theirs.items():
        (trace / name).write_text(text)
    (trace / "events-9.sums").mkdir()
    folders.take(trace, replace=True)
    assert (trace / "events-9.sums").is_dir()
    (trace / "events-9.sums").rmdir()
    assert {**texts(trace), "meta.json": ""} == {**theirs, "meta.json": ""}


def test_a_kind_of_file_that_is_not_listed_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="surprises is not a kind of file of a trace"):
        told.write(tmp_path, "surprises", {})
    assert list(tmp_path.iterdir()) == []


REAL = """
import os, resource, signal, sys, time
from pathlib import Path
from tenure.findings import Finding
from tenure.trace import recorder, told

folder = recorder.active().folder
for kind in told.KINDS:
    told.write(folder, kind, {})
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the child's disk is full
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
own = recorder.active()
while not own.failure:
    own._rows.born("torch", 8, "cpu", f"op {time.monotonic_ns()} {os.urandom(500)}", (1,), "float32", "/x.py:1 in f")
"""


def test_a_real_trace_with_files_of_each_kind_is_replaced_whole(tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '0'\n")
    (tmp_path / "first.py").write_text(f"import tenure\nwith tenure.trace('run'):\n{textwrap.indent(REAL, '    ')}")
    (tmp_path / "second.py").write_text("")
    done = subprocess.run([sys.executable, "first.py"], cwd=tmp_path, capture_output=True, text=True, env=CLEAN)
    assert done.returncode == 0, done.stderr
    made = {path.name for path in (tmp_path / "run").iterdir()}
    kinds = {re.sub(r"-\d+", "", name) for name in made}
    assert kinds >= {f"{kind}.jsonl" for kind in told.KINDS} | {"events.arrows", "events.sums", "events.reason"}
    words = [sys.executable, "-m", "tenure", "run", "-fo", "run", "second.py"]
    subprocess.run(words, cwd=tmp_path, capture_output=True, check=True, env=CLEAN)
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left & made == {"meta.json"}


def texts_of_any(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("data", [b"numbers of mine", b"ARROW1\0\0", b"\xff\xff\xff\xff\x04\0\0\0mine"])
def test_a_stream_that_is_not_of_the_trace_is_not_mixed_with_it(trace, data):
    (trace / "events-12.arrows").write_bytes(data)
    before = texts_of_any(trace)
    with pytest.raises(TraceError, match=r"events-12\.arrows is not part of the trace in it"):
        folders.take(trace, replace=True)
    assert texts_of_any(trace) == before


def test_a_stream_that_was_cut_off_in_its_beginning_is_of_the_trace(trace):
    whole = (trace / "events-7.arrows").read_bytes()
    for number, size in enumerate((0, 3, 100)):
        (trace / f"events-7{number}.arrows").write_bytes(whole[:size])
    folders.take(trace, replace=True)
    assert [path.name for path in trace.iterdir()] == ["meta.json"]


@pytest.mark.parametrize("meta", ["{}", "[]", '{"format": "torch trace"}', "x", "[" * 100_000])
def test_only_what_says_that_it_is_a_trace_is_one(tmp_path, meta):
    (tmp_path / "meta.json").write_text(meta)
    with pytest.raises(TraceError, match=r"it contains meta\.json"):
        folders.take(tmp_path, replace=True)
    assert (tmp_path / "meta.json").read_text() == meta


def test_links_in_a_trace_are_removed_and_not_what_they_lead_to(trace, tmp_path):
    precious = tmp_path / "precious.jsonl"
    precious.write_text("mine")
    (trace / "findings-7.jsonl").unlink()
    (trace / "findings-7.jsonl").symlink_to(precious)
    folders.take(trace, replace=True)
    assert precious.read_text() == "mine"


def test_a_trace_that_is_written_is_not_replaced(tmp_path):
    text = "import sys, tenure\nwith tenure.trace('t'):\n    print('on', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", text], cwd=tmp_path, stdin=-1, stdout=-1, env=CLEAN)
    assert process.stdout.readline() == b"on\n"
    try:
        with pytest.raises(TraceError, match=f"process {process.pid} still writes a trace to "):
            folders.take(tmp_path / "t", replace=True)
    finally:
        process.communicate()
    assert process.returncode == 0
    folders.take(tmp_path / "t", replace=True)


def test_a_lock_of_the_programs_own_halts_nobody(tmp_path):
    text = "import fcntl, os, tenure\nfcntl.flock(os.open('t', 0), fcntl.LOCK_EX)\ntenure.mark('x')"
    (tmp_path / "t").mkdir()
    env = CLEAN | {"TENURE_TRACE": "t"}
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, env=env, timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "t/meta.json").read_text())["format"] == "tenure trace"


def test_the_free_name_is_free(trace, tmp_path):
    (tmp_path / "made-2").symlink_to(Path("nowhere"))
    with pytest.raises(TraceError, match=r"such as .*made-3$"):
        folders.take(trace)


def test_every_kind_of_file_beside_a_stream_is_known():
    """A kind that is not would be left behind, and read with the next trace."""
    home = Path(folders.__file__).parent
    kinds = {
        kind for path in home.glob("*.py") for kind in re.findall(r'told\.read\(\w+, "?(\w+)"?[,)]', path.read_text())
    }
    kinds = {getattr(importlib.import_module("tenure.trace.checks"), kind, kind) for kind in kinds}
    assert {"suspects", "autopsy", "donations", "checks"} <= kinds <= set(told.KINDS)
