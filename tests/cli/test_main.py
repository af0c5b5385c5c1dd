"""The command line as a whole: verbs, help, and what is said to wrong words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tenure
from tenure import cli

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
HELPERS = {"__init__", "after"}  # files that are no verbs


def test_every_file_is_a_verb():
    assert {path.stem for path in Path(cli.__file__).parent.glob("*.py")} - HELPERS == set(cli.VERBS)


@pytest.mark.parametrize("command", [["-m", "tenure"], [str(Path(sys.executable).with_name("tenure"))]])
def test_both_ways_to_call_it(command):
    done = subprocess.run([sys.executable, *command, "--version"], capture_output=True, text=True, env=CLEAN)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tenure {tenure.__version__}\n", "")


def test_help_lists_the_verbs(capsys):
    assert cli.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"\n    {verb} " in told for verb in cli.VERBS)


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(capsys, verb):
    assert cli.main([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: tenure {verb}")


@pytest.mark.parametrize("words", [[], ["dance"], ["--loud"], ["doctor", "--format", "xml"], ["doctor", "now"]])
def test_wrong_words_are_exit_code_2(capsys, words):
    assert cli.main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "usage: tenure" in told.err


def test_a_reader_that_has_seen_enough(tmp_path):
    command = f"{sys.executable} -m tenure doctor | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=CLEAN)
    assert done.stderr == ""


def test_starting_is_quick_and_imports_nothing_large():
    heavy = ("torch", "jax", "tensorflow", "numpy", "pyarrow", "duckdb")
    code = f"import sys, tenure.cli as c; c.main(['--help']); c.main(['run', '--help']); assert not {set(heavy)!r} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=CLEAN)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize(("words", "code"), [(["rules"], 0), (["report", "nowhere"], 2), (["dance"], 2)])
def test_exit_codes_are_the_same_where_streams_are_closed(closed, words, code):
    command = [sys.executable, "-m", "tenure", *words]
    done = subprocess.run(
        command, preexec_fn=lambda: [os.close(n) for n in closed], capture_output=True, text=True, env=CLEAN
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
