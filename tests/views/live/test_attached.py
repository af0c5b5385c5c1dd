"""A real training that leaks, looked at while it goes on: attached, watched, left; it ends as if nobody had been there."""

import asyncio
import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_screens import Shown, screen

from tenure.cli.top import _findings
from tenure.traces import load
from tenure.views.live.app import Top
from tenure.views.live.picture import Wish
from tenure.views.live.session import Session

TRAINING = """
import os, sys, time
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2048))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
outputs = []
step = 0
while not os.path.exists(sys.argv[1]):
    prediction = model(torch.randn(32, 64))
    loss = prediction.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    outputs.append(prediction)
    step += 1
    time.sleep(0.02)
print(step)
"""
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TENURE")}
SECONDS = 120  # that anything may take on a machine that is busy


@pytest.fixture
def training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINING)
    words = [sys.executable, "-m", "tenure", "run", "-o", "run", "train.py", str(tmp_path / "stop")]
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        yield process
        process.kill()


def until(holds):
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_attach_watch_and_leave(training, tmp_path):
    folder = tmp_path / "run"
    until((folder / "meta.json").exists)
    seen = watch(folder)
    assert training.poll() is None, training.stderr.read()
    assert [one.step for one in seen] == sorted(one.step for one in seen)
    assert seen[-1].step >= seen[0].step + 20
    assert seen[-1].bytes > seen[0].bytes
    assert seen[-1].growth > 0
    held = next(row for row in seen[-1].rows if row.source == "prediction = model(torch.randn(32, 64))")
    assert held.rises
    assert held.place.endswith("train.py:11")
    (note,) = seen[-1].notes
    assert note.title.startswith("likely TN302")
    assert "outputs.append(prediction)" in note.title
    assert note.path[0].startswith("global outputs")

    once = subprocess.run(
        [sys.executable, "-m", "tenure", "top", "run", "--once"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=True,
    )
    assert re.search(r"^pid \d+; running .*step \d+", once.stdout, re.MULTILINE)
    assert "likely TN302" in once.stdout
    assert "\x1b" not in once.stdout
    in_a_terminal()

    assert training.poll() is None
    (tmp_path / "stop").touch()
    out, err = training.communicate(timeout=SECONDS)
    assert training.returncode == 0, err
    assert int(out) > seen[-1].step
    ends_as_the_analyses_say(folder, int(out))


def watch(folder):
    """Pictures, from the first steps to the suspect; then q."""
    seen = []

    async def go():
        app = Top(Session(folder, _findings))
        async with app.run_test(size=(110, 30)) as pilot:
            end = time.monotonic() + SECONDS
            while not (seen and seen[-1].notes and seen[-1].step >= seen[0].step + 20 and seen[-1].growth):
                assert time.monotonic() < end, screen(app)
                await pilot.pause(0.1)
                if app.picture is not None and app.picture.step and (not seen or app.picture is not seen[-1]):
                    seen.append(app.picture)
            text = await Shown(pilot).settled()
            assert "likely TN302" in text
            assert re.search(r"step \d+, \d", text)
            await pilot.press("q")
        assert app.return_code == 0
        app._thread.join(10)
        app.session.close()

    asyncio.run(go())
    return seen


def in_a_terminal():
    """The command itself, in a terminal, left by a key."""
    here, there = pty.openpty()
    words = [sys.executable, "-m", "tenure", "top", "run"]
    with subprocess.Popen(
        words, stdin=there, stdout=there, stderr=there, env={**ENVIRONMENT, "TERM": "xterm-256color"}
    ) as top:
        os.close(there)
        shown = b""
        end = time.monotonic() + SECONDS
        while b"outputs.append" not in shown:
            assert time.monotonic() < end, shown
            if select.select([here], [], [], 1)[0]:
                shown += os.read(here, 1 << 16)
        os.write(here, b"q")
        while top.poll() is None:
            assert time.monotonic() < end
            if select.select([here], [], [], 0.1)[0]:
                try:
                    os.read(here, 1 << 16)
                except OSError:  # the other end is closed
                    break
        assert top.wait(SECONDS) == 0
    os.close(here)


def ends_as_the_analyses_say(folder, steps):
    trace = load(folder)
    session = Session(folder, _findings)
    while not session.over:
        session.turn()
    picture = session.picture(Wish())
    session.close()
    assert picture.status.startswith("finished after")
    scan = trace.scanned
    number = scan.words("device").index("cpu")
    assert (picture.peak, picture.bytes) == (scan.peaks()[number][0], scan.peaks()[number][2])
    query = "select count(*) as count, sum(bytes) as bytes from buffers where ended is null"
    left = trace.sql(query).to_pylist()[0]
    assert (sum(row.count for row in picture.rows), sum(row.bytes for row in picture.rows)) == (
        left["count"],
        left["bytes"],
    )
    assert picture.step == steps - 1 or picture.step == steps
    assert (
        [note.title.split()[0] for note in picture.notes] == [finding.code for finding in trace.faults()] == ["TN302"]
    )
    assert json.loads((folder / "meta.json").read_text())["format"] == "tenure trace"


# The first has a file that may not grow, as on a full disk, and goes on; the second is killed.
STOPPED = """
import os, resource, signal, sys, time
from pathlib import Path
from tenure.trace.recorder import Recorder

recorder = Recorder(Path("run"))
recorder.start(fresh=sys.argv[1] == "full")
if sys.argv[1] == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
while not recorder.failure:
    recorder._rows.born("torch", 8, "cpu", str(os.urandom(300)), (1,), "float32", "/x.py:1 in f")
    time.sleep(0.001)
print("stopped", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def running(words, **how):
    """A process that is killed at the end, whatever failed meanwhile."""
    with subprocess.Popen(words, env=ENVIRONMENT, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_trace_that_a_full_disk_ended_is_not_called_killed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-c", STOPPED]
    with running([*words, "full"], stdin=-1, stdout=-1, stderr=-1, text=True) as full:
        assert full.stdout.readline() == "stopped\n"
        session = Session(tmp_path / "run", lambda place: ((), ()))
        until(lambda: session.turn() or session.over)
        status = session.picture(Wish()).status
        assert re.fullmatch(r"the trace could not be written any further \(File too large\)(, after [\d:]+)?", status)
        with running([*words, "join"]) as other:
            until(lambda: session.turn() or not session.over)
            (trouble,) = session.picture(Wish()).troubles
            assert trouble == f"pid {full.pid}: the trace could not be written any further (File too large)"
            until(lambda: session.turn() or session.picture(Wish()).processes[1].bytes)
            other.kill()
        until(lambda: session.turn() or session.over)
        status = session.picture(Wish()).status
        session.close()
    assert re.fullmatch(
        r"no longer running here: 1 of 2 processes killed, or on another machine; "
        r"1 of 2 processes: the trace could not be written any further \(File too large\)(, after [\d:]+)?",
        status,
    )


def test_what_grew_in_a_process_that_was_killed_stays(training, tmp_path):
    folder = tmp_path / "run"
    until(
        lambda: (
            any(folder.glob("growing-*.jsonl")) and any(file.stat().st_size for file in folder.glob("growing-*.jsonl"))
        )
    )
    session = Session(folder, _findings)
    session.turn()
    training.kill()
    training.wait(SECONDS)
    until(lambda: session.turn() or session.over)
    picture = session.picture(Wish())
    session.close()
    assert picture.status.startswith("no longer running here: killed")
    assert any(note.title.startswith("likely TN302") for note in picture.notes)
