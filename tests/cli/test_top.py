"""`tenure top` as people call it: where there is nothing to see, too much, or no terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "views" / "live"))
from made import Made, training

from tenure import cli
from tenure.trace import running
from tenure.trace.running import Running


@pytest.fixture
def folder(tmp_path):
    for rank in range(2):
        made = Made(tmp_path / "run", 4000 + rank, rank=str(rank))
        training(made, "train.py", 20 + rank)
        made.close()
    return tmp_path / "run"


def top(capsys, *words):
    code = cli.main(["top", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_without_a_terminal_it_is_one_screen_of_text(folder, capsys):
    code, out, err = top(capsys, folder)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "train.py --lr 0.1  →  run"
    assert out.splitlines()[1] == "2 processes together; finished after 0:02; step 20, 10.0 per second"
    assert "cpu: 10.6 MiB now, peak 14.5 MiB, +128.0 KiB per step" in out
    assert "train.py:9 in train" in out
    assert "\x1b" not in out


def test_one_rank(folder, capsys):
    code, out, _ = top(capsys, folder, "--once", "--rank", 1)
    assert code == 0
    assert out.splitlines()[1].startswith("rank 1; finished")
    assert top(capsys, folder, "--once", "--rank", 7) == (2, "", f"tenure: {folder} has no rank 7\n")


def test_one_stream(folder, capsys):
    code, out, _ = top(capsys, folder / "events-4001.arrows")
    assert code == 0
    assert out.splitlines()[1].startswith("rank 1; finished")


@pytest.mark.parametrize("place", ["nowhere", "empty", "train.py", "\0"])
def test_what_is_no_trace(tmp_path, capsys, place):
    (tmp_path / "empty").mkdir()
    (tmp_path / "train.py").touch()
    code, out, err = top(capsys, tmp_path / place)
    assert (code, out) == (2, "")
    assert err.startswith("tenure: ")
    assert err.count("\n") == 1


def test_nobody_runs(monkeypatch, capsys):
    monkeypatch.setattr(running, "find", list)
    code, out, err = top(capsys)
    assert (code, out) == (2, "")
    assert err == (
        "tenure: none of your processes is being traced; start one with: tenure run SCRIPT, "
        "or name a trace: tenure top FOLDER\n"
    )


def test_one_runs_and_is_found(folder, monkeypatch, capsys):
    monkeypatch.setattr(
        running, "find", lambda: [Running(4000 + at, folder, ("python", "train.py"), recording=True) for at in range(2)]
    )
    code, out, _ = top(capsys)
    assert (code, out.splitlines()[0]) == (0, "train.py --lr 0.1  →  run")


def test_several_run_and_are_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = [
        Running(7, tmp_path / "a run", ("python", "train.py", "\x1b[31m"), recording=True),
        Running(8, Path("/elsewhere"), ("python", "x" * 1_000), recording=False),
    ]
    monkeypatch.setattr(running, "find", lambda: found)
    code, out, err = top(capsys)
    assert (code, out) == (2, "")
    first, *rest = err.splitlines()
    assert first == "tenure: several runs are being traced; choose one:"
    assert sorted(line[:40].strip() for line in rest)[0].startswith("tenure top '")
    assert "tenure top 'a run'   pid 7: train.py ?[31m" in err
    assert all(len(line) < 150 for line in rest)


def test_without_textual_it_says_what_to_install(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setitem(sys.modules, "textual.app", None)
    for name in [name for name in sys.modules if name in ("tenure.views.live.app", "tenure.views.live.help")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    code, out, err = top(capsys, folder)
    assert (code, out) == (2, "")
    assert "pip install 'tenure[top]'; or use: tenure top --once" in err


def test_text_needs_neither_textual_nor_a_framework(folder):
    code = (
        "import sys; from tenure.cli import main; main(['top', sys.argv[1], '--once']); "
        "print([name for name in ('textual', 'rich', 'torch', 'jax', 'duckdb') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "14.5 MiB |" in done.stdout  # drawn without blocks, which ASCII has not
    assert done.stdout.isascii()


def test_a_process_that_has_not_begun_to_record_is_found(tmp_path):
    (tmp_path / "meta.json").write_text("{}")
    code = "import os, sys; print('ready', flush=True); sys.stdin.read()"
    words = [
        sys.executable,
        "-c",
        "import os, json, sys; os.environ['TENURE_RUN'] = json.dumps({'pid': os.getpid()}); os.environ['TENURE_TRACE'] = sys.argv[2]; os.execv(sys.executable, [sys.executable, '-S', '-c', sys.argv[1]])",
    ]
    with subprocess.Popen([*words, code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        found = [one for one in running.find() if one.folder == tmp_path]
        assert [(one.pid, one.recording) for one in found] == [(other.pid, False)]
        other.stdin.close()
    assert json.loads((tmp_path / "meta.json").read_text()) == {}
