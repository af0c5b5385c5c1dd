"""`tenure export` as people call it."""

import os
import pty
import sys
from pathlib import Path

import pytest

from tenure import cli
from tenure.cli import export

SNAPSHOT = Path(__file__).parents[1] / "trace" / "data" / "cuda.pickle.gz"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("TENURE_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_it_says_where_the_file_is_and_nothing_else(capsys, here):
    assert cli.main(["export", str(SNAPSHOT), "--to", "speedscope"]) == 0
    assert capsys.readouterr() == ("cuda.speedscope.json\n", "")
    assert [path.name for path in here.iterdir()] == ["cuda.speedscope.json"]


def test_where_and_which_table_can_be_said(capsys, here):
    assert cli.main(["export", str(SNAPSHOT), "--to", "csv", "--table", "steps", "-o", "steps.csv"]) == 0
    assert capsys.readouterr().out == "steps.csv\n"
    assert len((here / "steps.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing", "--to", "csv"], "nothing does not exist"),
        (
            [str(SNAPSHOT), "--to", "csv", "-o", "no/such/x.csv"],
            "cannot write to no/such/x.csv: there is no folder",
        ),
        ([str(SNAPSHOT), "--to", "csv", "-o", "."], "cannot write to .: it is a folder"),
        ([str(SNAPSHOT), "--to", "xlsx"], "invalid choice: 'xlsx'"),
        ([str(SNAPSHOT)], "--to"),
    ],
)
def test_wrong_usage_is_one_clear_line(words, told, capsys):
    assert cli.main(["export", *words]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert told in out.err
    assert "Traceback" not in out.err


def test_progress_is_shown_on_a_terminal_and_gone_in_the_end(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(export, "_EVERY", 0.01)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as out:
        with export.progress(out) as tell:
            tell(1200)
            shown = b""
            while b"1,200 rows" not in shown:
                shown += os.read(ours, 4096)
        rest = b""
        while not rest.endswith(b"\r\x1b[K"):
            rest += os.read(ours, 4096)
    os.close(ours)
    assert b"exporting, 1,200 rows, 0 s" in shown


def test_progress_is_silent_where_nobody_looks(capsys):
    with export.progress(sys.stderr) as tell:
        tell(5)
    assert capsys.readouterr().err == ""
