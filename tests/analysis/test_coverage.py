"""Every view reports what was not judged and why; it reports "no leak" only where leaks were looked for."""

import json
import os
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import tenure
from tenure.analysis import coverage
from tenure.analysis.summary import summary
from tenure.trace import marks
from tenure.views.console import report
from tenure.views.html.build import build
from tenure.views.notebook.trace import trace as in_notebook

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE")}
EXAMPLE = Path(__file__).parents[2] / "examples" / "leaking_training.py"

# A recorded process that allocates one buffer, with as many leak checks as are asked for.
PROGRAM = """
import os, sys, time
from pathlib import Path
from tenure.trace import checks
from tenure.trace.checks import Checks
from tenure.trace.recorder import Recorder

recorder = Recorder(Path(sys.argv[1]))
recorder.start(fresh=sys.argv[2] == "fresh")
recorder._rows.born("torch", 1024, "cpu", "aten::add", (256,), "float32", "/somewhere/train.py:3 in f")
{more}
recorder.stop()
"""
CHECKED = "checks.write(recorder.folder, Checks(os.getpid(), {count}, 1000, {missed}, {unstepped}))"


def record(folder, more="", *, fresh=True):
    code = PROGRAM.replace("{more}", more)
    words = [sys.executable, "-c", code, str(folder), "fresh" if fresh else "join"]
    return subprocess.run(words, check=False, env=CLEAN).returncode


def checked(count=40, missed=0, unstepped=False):
    return CHECKED.format(count=count, missed=missed, unstepped=unstepped)


def seen(place):
    """The summary, the lines below it, and the same from JSON and the page."""
    trace = tenure.load(place)
    found = summary(trace, trace.scanned, trace.peak())
    text = report.render(found, trace.findings())
    verdict, _, below = text[text.index("Summary: ") :].partition("\n")
    told = json.loads(report.as_json(found))["not_judged"]
    about = build(trace)["about"]
    assert about["limits"] == found.limits
    assert all(line in unescape(in_notebook(trace)) for line in found.limits)
    assert " ".join(below.split()).startswith(" ".join(found.limits))
    assert (about["leaks_judged"] == "all") == ("no leak found." in verdict)
    assert ("leaks" in {one["what"] for one in told}) == (about["leaks_judged"] != "all")
    return verdict, found.limits


def test_no_leak_is_said_where_leaks_were_looked_for(tmp_path):
    record(tmp_path / "t", checked())
    assert seen(tmp_path / "t") == ("Summary: no leak found. Peak memory is 1.0 KiB on cpu.", [])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("", "the trace contains no leak checks of this process"),
        (checked(count=3), "the run was too short (3 of about 8 leak checks); record 16 iterations"),
        (checked(missed=900), "the main thread was busy in one call during 90% of the events"),
        (checked(unstepped=True), "the program has an optimizer, but tenure saw no step of it"),
        (
            f"recorder.advance(900); recorder.advance()\n{checked()}",
            "the run was too short (2 of about 16 steps); record 16 steps",
        ),
    ],
)
def test_leaks_are_not_judged_where_nobody_could_have_found_one(more, why, tmp_path):
    record(tmp_path / "t", more)
    verdict, lines = seen(tmp_path / "t")
    assert verdict == "Summary: leaks not checked. Peak memory is 1.0 KiB on cpu."
    (line,) = lines
    assert line.startswith(f"leaks not checked: {why}")


def test_a_process_that_was_killed(tmp_path):
    assert record(tmp_path / "t", "time.sleep(0.6); os.kill(os.getpid(), 9)") == -signal.SIGKILL
    verdict, lines = seen(tmp_path / "t")
    assert verdict == "Summary: leaks not checked. Peak memory is 1.0 KiB on cpu."
    assert lines == ["leaks not checked, peak only partly checked: the process was killed, or still runs"]
    trace = tenure.load(tmp_path / "t")
    found = summary(trace, trace.scanned)
    assert "did not close its stream" in found.notes[0]
    assert "did not close its stream" not in report.render(found)  # which would be the same in other words


def test_one_of_three_processes_that_was_killed_is_named(tmp_path):
    record(tmp_path / "t", checked())
    record(tmp_path / "t", checked(), fresh=False)
    record(tmp_path / "t", "time.sleep(0.6); os.kill(os.getpid(), 9)", fresh=False)
    verdict, lines = seen(tmp_path / "t")
    assert verdict == "Summary: no leak found, but not everything was checked. Peak memory is 3.0 KiB on cpu."
    trace = tenure.load(tmp_path / "t")
    (killed,) = [one.number for one in trace.processes if not one.complete]
    assert lines[0].endswith(f" (process {killed})")
    # Of one of the others alone nothing is known.
    _, (line,) = seen(next(one.path for one in trace.processes if one.complete))
    assert line.startswith("leaks not checked: this is one stream of a trace")


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        (marks.trouble("the hook broke"), "leaks and peak only partly checked: while recording: the hook broke"),
        (
            marks.trouble("looking for leaks: KeyError(3)"),
            "leaks only partly checked: while recording: looking for leaks",
        ),
        (marks.partly(("peak",), "it is half of it"), "peak only partly checked: it is half of it"),
        (
            marks.recording("torch", "2.13", native=False),
            "leaks and peak only partly checked: torch was recorded without native extensions",
        ),
    ],
)
def test_what_a_recorder_does_not_see(mark, told, tmp_path):
    record(tmp_path / "t", f"recorder.mark({mark!r})\n{checked()}")
    verdict, (line,) = seen(tmp_path / "t")
    assert line.startswith(told)
    assert ("but not everything was checked." in verdict) == line.startswith("leaks")


def test_natively_recorded_is_all_there_is_to_say(tmp_path):
    record(tmp_path / "t", f"recorder.mark({marks.recording('torch', '2.13', native=True)!r})\n{checked()}")
    assert seen(tmp_path / "t")[1] == []


def test_of_many_processes_a_few_are_named():
    found = [coverage.NotJudged("leaks", "they were killed", processes=tuple(range(1, 8)))]
    assert coverage.lines(found, 9) == ["leaks not checked: they were killed (processes 1, 2, 3, 4 and 3 more)"]
    assert coverage.lines(found, 7) == ["leaks not checked: they were killed"]


def run(folder, *words):
    call = [sys.executable, "-m", "tenure", "run", "-o", "t", *words]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, env=CLEAN, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stderr.replace("\ntenure:   ", "\n").split())  # long lines are broken


def test_recording_a_few_steps_of_a_real_training(tmp_path):
    """An optimizer goes through its hooks while the recording ends."""
    pytest.importorskip("torch")
    text = run(tmp_path, "--steps", "3", str(EXAMPLE))
    assert "leaks not checked: the run was too short (3 of about 16 steps)" in text
    assert "recording stopped after 3 steps, as requested" in text
    assert seen(tmp_path / "t")[0].startswith("Summary: leaks not checked.")


THREAD = """
import threading, torch
model, kept = torch.nn.Linear(16, 1), []
def work():
    for _ in range(300):
        kept.append(model(torch.randn(4, 16)).mean())
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_a_main_thread_that_waits_is_not_checked(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "s.py").write_text(THREAD)
    assert "leaks not checked: the main thread was busy in one call" in run(tmp_path, "s.py")
    assert seen(tmp_path / "t")[0].startswith("Summary: leaks not checked.")


BACKWARD = """
import torch
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(60)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    loss = model(torch.randn(4, 8)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_long_backward_passes_do_not_keep_a_training_from_being_judged(tmp_path):
    """In each, the main thread is in one call for many events; the checks come between them."""
    pytest.importorskip("torch")
    (tmp_path / "s.py").write_text(BACKWARD)
    assert "judged" not in run(tmp_path, "s.py")
    assert seen(tmp_path / "t")[0].startswith("Summary: no leak found.")


def test_a_trace_that_cannot_be_read_is_not_judged(tmp_path):
    from tenure.cli import after
    from tenure.views.console import last_lines

    record(tmp_path / "t", checked())
    (stream,) = (tmp_path / "t").glob("*.arrows")
    stream.write_bytes(stream.read_bytes()[:-9] + b"something")
    run = after.look(tmp_path / "t")
    assert "is damaged" in run.unreadable
    assert last_lines.render(run, 1000).startswith("tenure: leaks not checked: ")


def test_why_nothing_was_recorded(tmp_path):
    from tenure.cli import after

    assert "did not import torch, jax or tensorflow" in after.look(tmp_path).empty
    assert "failed before it imported torch, jax or tensorflow" in after.look(tmp_path, raised=True).empty
    assert "could not begin" in after.look(tmp_path, failed=True).empty
    (tmp_path / "events-1.arrows").write_bytes(b"")
    assert "no event reached" in after.look(tmp_path).empty


def test_a_framework_that_could_not_be_recorded_is_named(tmp_path):
    """A module of the user's may have a framework's name."""
    (tmp_path / "jax.py").write_text("x = 1\n")
    (tmp_path / "s.py").write_text("import jax\nprint(jax.x)\n")
    assert "leaks only partly checked: while recording: jax is not recorded: module 'jax' has no attribute" in run(
        tmp_path, "s.py"
    )
    trace = tenure.load(tmp_path / "t")
    text = " ".join(report.render(summary(trace, trace.scanned, trace.peak())).split())
    assert "leaks and peak only partly checked: while recording: jax is not recorded" in text


@pytest.mark.parametrize("how", ["missing", "garbage", "cut", "pipe"])
def test_leak_candidates_that_cannot_be_read_are_reported(tmp_path, how):
    candidate = 'suspects.tell(recorder.folder, [suspects.Suspect("torch", "buffers", "/somewhere/train.py:3 in f")])'
    counted = "checks.write(recorder.folder, Checks(os.getpid(), 40, 1000, 0, False, 1))"
    record(tmp_path / "t", f"from tenure.trace import suspects\n{candidate}\n{counted}")
    assert seen(tmp_path / "t")[1] == []
    (path,) = (tmp_path / "t").glob("suspects-*.jsonl")
    text = path.read_bytes()
    path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    elif how != "missing":
        path.write_bytes(text[: len(text) // 2] if how == "cut" else b"[1]\n\xff{")
    verdict, limits = seen(tmp_path / "t")
    assert "no leak" not in verdict
    assert limits == [f"leaks not checked: 1 of 1 leak candidates cannot be read: {path.name} is damaged or missing"]
