"""The command line as a whole: verbs, help, and what is said to wrong words."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tenure
from tenure import cli
from tenure.faults import FAULTS

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
HELPERS = {"__init__", "after", "newest"}  # files that are not commands


def test_every_file_is_a_verb():
    assert {path.stem for path in Path(cli.__file__).parent.glob("*.py")} - HELPERS == set(cli.VERBS)


@pytest.mark.parametrize("command", [["-m", "tenure"], [str(Path(sys.executable).with_name("tenure"))]])
def test_both_ways_to_call_it(command):
    done = subprocess.run([sys.executable, *command, "--version"], capture_output=True, text=True, env=CLEAN)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tenure {tenure.__version__}\n", "")


def test_help_lists_the_verbs(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^    {verb} +[A-Z].*\.$", shown, re.MULTILINE) for verb in cli.VERBS), "one line each"
    assert "PYTEST" not in shown


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help_that_fits_80_columns(capsys, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: tenure {verb}")
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_pytest_is_asked_to_take_tenure_as_it_is_imported():
    assert "PYTEST_DONT_REWRITE" in tenure.__doc__


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


@pytest.mark.parametrize(
    ("words", "usage", "said"),
    [
        (["rprot"], "usage: tenure [-h]", "there is no command rprot; did you mean report?"),
        (["dance"], "usage: tenure [-h]", "there is no command dance; `tenure --help` lists the commands\n"),
        (["--verson"], "usage: tenure [-h]", "there is no option --verson; did you mean --version?"),
        (["report", "--fromat", "json"], "usage: tenure report", "no option --fromat; did you mean --format?"),
        (["report", "--fromat=json", "t"], "usage: tenure report", "no option --fromat; did you mean --format?"),
        (["run", "--quite", "s.py"], "usage: tenure run", "there is no option --quite; did you mean --quiet?"),
        (["sql", "--xyzzy", "t", "select 1"], "usage: tenure sql", "there is no option --xyzzy\n"),
        (["doctor", "now"], "usage: tenure doctor", "unexpected arguments: now"),
        (["diff", "a", "b", "c"], "usage: tenure diff", "unexpected arguments: c"),
        ([], "usage: tenure [-h]", "\n    report       Show leaks, peak memory, and how to lower it, from a trace.\n"),
    ],
)
def test_wrong_usage_shows_that_of_the_command_and_what_was_meant(words, usage, said, capsys):
    assert cli.main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(usage)
    assert said in told.err


@pytest.mark.parametrize(("words", "same"), [(["help"], ["--help"]), (["help", "run"], ["run", "--help"])])
def test_help_is_a_word_too(words, same, capsys):
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    assert cli.main(same) == 0
    assert shown == capsys.readouterr().out


def test_the_short_option_for_the_version(capsys):
    assert cli.main(["-V"]) == 0
    assert capsys.readouterr().out == f"tenure {tenure.__version__}\n"


# ---------------------------------------------------------------------------- no trace is named: the newest one is read


def recorded(place, began=None):
    """The trace of a process that recorded nothing but steps; `began` as meta.json has it."""
    code = "import sys; from pathlib import Path; from tenure.trace.recorder import Recorder\nr = Recorder(Path(sys.argv[1])); r.start(); r.advance(); r.stop()"
    subprocess.run([sys.executable, "-c", code, str(place)], check=True, env=CLEAN)
    meta = place / "meta.json"
    about = json.loads(meta.read_text())
    assert abs(about.pop("began") - time.time()) < 100
    meta.write_text(json.dumps(about if began is None else {**about, "began": began}))


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """`a` is newer than `z` by what both say, though `z` was written last; the others are no traces, or empty."""
    folder = tmp_path_factory.mktemp("traces")
    recorded(folder / "a", 2_000)
    recorded(folder / "z", 1_000)
    os.utime(folder / "a/meta.json", (1, 1))
    (folder / "tenure-train").mkdir()
    (folder / "empty").mkdir()
    (folder / "empty/meta.json").write_text('{"format": "tenure trace", "began": 9000}')
    (folder / "other").mkdir()
    (folder / "other/meta.json").write_text('{"format": "another", "began": 9000}')
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["report"],
        ["report", "--format", "concise"],
        ["view", "-o", "page.html"],
        ["sql", "select 1"],
        ["sql", "--format", "csv", "select 1"],
        ["diff", "--at", "0.0", "--to", "0.1"],
        ["export", "--to", "csv", "-o", "rows.csv"],
    ],
)
def test_the_newest_trace_is_read_if_none_is_named(words, traces, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(traces)
    words = [str(tmp_path / word) if word.endswith((".html", ".csv")) else word for word in words]
    code = cli.main(words)
    told = capsys.readouterr()
    assert told.err.startswith("tenure: reading the newest trace, a\n")
    assert code == 0 or "nothing was" in told.err or "no buffer" in told.err, told.err


def test_the_two_newest_are_compared(traces, monkeypatch, capsys):
    monkeypatch.chdir(traces)
    cli.main(["diff"])
    assert capsys.readouterr().err.startswith(
        "tenure: reading the second newest trace, z\ntenure: reading the newest trace, a\n"
    )


def test_a_trace_can_be_named_before_or_between_options(traces, monkeypatch, capsys):
    monkeypatch.chdir(traces)
    for words in (["z", "select 1 as n", "--format", "csv"], ["z", "--format", "csv", "select 1 as n"]):
        assert cli.main(["sql", *words]) == 0
        assert capsys.readouterr() == ("n\n1\n", "")


@pytest.mark.parametrize("words", [["report"], ["view"], ["sql", "select 1"], ["diff"], ["export", "--to", "csv"]])
def test_where_there_is_no_trace(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    said = "tenure: there is no trace in this folder; record one with: tenure run SCRIPT, or name its folder\n"
    assert capsys.readouterr() == ("", said)


def test_one_trace_cannot_be_compared_with_none(tmp_path, monkeypatch, capsys):
    recorded(tmp_path / "one")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["diff"]) == 2
    assert capsys.readouterr().err == "tenure: there is only one trace in this folder, one; name two to compare\n"


def test_traces_of_older_versions_are_ordered_by_their_files(tmp_path):
    from tenure.trace import folders

    for at, name in enumerate("cab"):
        recorded(tmp_path / name)
        os.utime(tmp_path / name / "meta.json", (1_000 + at, 1_000 + at))
    assert [folder.name for folder in folders.newest(tmp_path)] == ["b", "a", "c"]
    assert folders.newest(tmp_path / "b") == [tmp_path / "b"]
    assert folders.newest(tmp_path / "nowhere") == []


# ------------------------------------------------------------------------------------------- words that a newcomer types


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py"], "tenure: train.py is a script; use: tenure run train.py\n"),
        (["nowhere/train.py", "--lr", "1 2"], "is a script; use: tenure run nowhere/train.py --lr '1 2'\n"),
        (["run", "--epochs", "3", "train.py"], "no option --epochs; options of the script go after it: tenure run train.py --epochs 3\n"),
        (["run", "-q", "--lr=1", "train.py", "x"], "options of the script go after it: tenure run -q train.py --lr=1 x\n"),
        (["run", "--a", "1", "--b", "2", "-m", "pkg", "x"], "go after it: tenure run -m pkg --a 1 --b 2 x\n"),
        (["run", "--quite", "train.py"], "did you mean --quiet? options of the script go after it: tenure run train.py --quite\n"),
        (["run", "--epochs", "3"], "there is no option --epochs; did you mean --steps?\n"),
        (["-v"], "tenure: there is no option -v; use: tenure -V\n"),
        (["version"], "tenure: there is no command version; use: tenure -V\n"),
        (["export", "before"], "the following arguments are required: --to; FORMAT is one of: perfetto,"),
    ],
)  # fmt: skip
def test_what_to_type_instead(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    assert cli.main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err


def test_a_trace_is_not_a_log(traces, monkeypatch, capsys):
    monkeypatch.chdir(traces)
    assert cli.main(["explain", "a"]) == 2
    assert capsys.readouterr() == ("", "tenure: a is a trace; use: tenure report a\n")
    assert cli.main(["explain", "tenure-train"]) == 2
    assert capsys.readouterr().err == "tenure: tenure-train is neither a rule nor a readable file: Is a directory\n"


def test_a_rule_by_its_name_or_code(capsys):
    assert cli.main(["explain", "tn207"]) == 0
    page = capsys.readouterr().out
    for word in (FAULTS["TN207"].name, FAULTS["TN207"].name.upper(), "TN207"):
        assert cli.main(["explain", word]) == 0
        assert capsys.readouterr().out == page
    assert cli.main(["explain", FAULTS["TN207"].name[:-1]]) == 2
    assert capsys.readouterr().err.endswith(f"; did you mean {FAULTS['TN207'].name}?\n")


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", "No traceback found in {}: it is empty.\n"),
        ("x = 1\n", "No traceback found in {}; it is a script: tenure run {}\n"),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    d[1]\nKeyError: 1\n', "No rule explains `KeyError: 1`: it does not look like an error about tensor lifetimes.\n"),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\nRuntimeError: the pool was deleted\n', "No rule explains `RuntimeError: the pool was deleted`, although its text is about the lifetime of something.\n"),
    ],
)  # fmt: skip
def test_why_a_log_has_no_explanation(log, said, tmp_path, capsys):
    file = tmp_path / "s.py"
    file.write_text(log)
    assert cli.main(["explain", str(file)]) == 0
    assert capsys.readouterr().out == said.format(file, file)
