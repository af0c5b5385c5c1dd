"""What `tenure run` prints at the end: the same few lines after every kind of run, at any width."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tenure.console
from tenure.analysis.amounts import SiteAmount
from tenure.analysis.peak import Peak
from tenure.cli import after
from tenure.faults import tn301_loss_accumulated_with_graph, tn501_held_past_last_use
from tenure.findings import Fix, Place
from tenure.views import formats
from tenure.views.console import last_lines
from tenure.views.console.last_lines import Ended

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "COLUMNS"))}
RUN = [sys.executable, "-m", "tenure", "run", "-o", "t"]

TRAINING = """
import os, signal, subprocess, sys, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range(40):
    loss = model(torch.randn(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    LAST
print("trained")
"""
RANKS = """
import os, subprocess, sys
if "RANK" not in os.environ:
    both = [subprocess.Popen([sys.executable, __file__], env=os.environ | {"RANK": str(rank)}) for rank in range(2)]
    sys.exit(max(one.wait() for one in both))
"""
TWICE = """
import torch
x = torch.ones(1000, requires_grad=True)
y = (x * 2).exp().sum()
y.backward()
y.backward()
"""
# What is run, its exit code, how the first line begins, and what comes in the other lines.
SITUATIONS = {
    "clean": (TRAINING.replace("LAST", ""), 0, "no leak found", ("peak memory", "trace:", "next:")),
    "leak": (TRAINING.replace("LAST", "kept.append(loss)"), 0, "1 leak (TN3", ("peak memory", "trace:", "next:")),
    "error": (TWICE, 1, "1 finding (TN208); leaks not checked:", ("peak memory", "trace:", "next:")),
    "interrupted": (
        TRAINING.replace("LAST", "step < 39 or os.kill(os.getpid(), signal.SIGINT)"),
        -signal.SIGINT,
        "interrupted; no leak found",
        ("peak memory", "trace:", "next:"),
    ),
    "without tensors": ("print('trained')", 0, "nothing was recorded:", ()),
    "without native extensions": (
        TRAINING.replace("LAST", ""),
        0,
        "no leak found, but not everything was checked: torch was recorded without native extensions (see `tenure doctor`), so tenure",
        ("peak memory", "trace:", "next:"),
    ),
    "two ranks": (RANKS + TRAINING.replace("LAST", ""), 0, "no leak found", ("peak memory", "trace:", "next:")),
}


@pytest.fixture
def needs_torch():
    if "torch" not in os.environ.get("TENURE_TEST_FRAMEWORKS", "torch"):
        pytest.skip("torch is not among TENURE_TEST_FRAMEWORKS")


def lines(text):
    """The lines as they were before long ones were broken."""
    assert all(line.startswith("tenure: ") for line in text.splitlines())
    return [line.removeprefix("tenure: ") for line in text.replace("\ntenure:   ", " ").splitlines()]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_run_ends_with_its_result(situation, tmp_path, monkeypatch, needs_torch):
    program, code, first, others = SITUATIONS[situation]
    (tmp_path / "s.py").write_text(program)
    more = {"TENURE_NATIVE": "0"} if situation == "without native extensions" else {}
    done = subprocess.run([*RUN, "s.py"], cwd=tmp_path, env=CLEAN | more, capture_output=True, text=True, timeout=200)
    assert done.returncode == code
    ours = "".join(line for line in done.stderr.splitlines(keepends=True) if line.startswith("tenure: "))
    assert done.stderr.endswith(ours)  # and the program's own come before
    found = lines(ours)
    assert found[0].startswith(first)
    assert len(found) == 1 + len(others) or 3 <= len(found) <= 6
    assert all(line.startswith(start) for line, start in zip(found[1:], others, strict=True))
    assert ("(sum of 2 processes)" in ours) == (situation == "two ranks")
    monkeypatch.chdir(tmp_path)
    run = replace(after.look(tmp_path / "t"), interrupted=situation == "interrupted")
    for width in (60, 200):
        text = last_lines.render(run, width)
        assert lines(text) == found
        assert max(map(len, text.splitlines())) <= width
        assert "`tenure report t`" in text or run.empty


def test_it_says_nothing_when_asked_to(tmp_path):
    (tmp_path / "s.py").write_text("print('out')")
    for option in ("-q", "--quiet"):
        done = subprocess.run(
            [sys.executable, "-m", "tenure", "run", option, "s.py"], cwd=tmp_path, env=CLEAN, capture_output=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"")


def peak(nbytes=30 << 20, **more):
    site = SiteAmount(20 << 20, 3, f"{Path.cwd()}/train.py", 12, "step")
    values = dict.fromkeys(Peak.__dataclass_fields__, ()) | {"bytes": nbytes, "device": "cpu", "step": 4, "past": 0}
    return Peak(**values | {"sites": (site,)} | more)


def advice(saved, message):
    fault = tn501_held_past_last_use.FAULT
    place = Place("birth", f"{Path.cwd()}/train.py", 3, "f", "x = y")
    return fault.finding("x is kept", [place], fix=Fix(message), evidence={"saved": saved})


LEAK = tn301_loss_accumulated_with_graph.FAULT.finding("total keeps a graph", [Place("birth", "/a/train.py", 3)])


def test_the_advice_is_the_one_that_saves_the_most():
    run = Ended(
        "t", 2048, 1, 1, [advice(1, "one"), advice(9, "add `del x`"), advice(2, "two")], judged="all", peak=peak()
    )
    assert last_lines.render(run, 100) == (
        "tenure: no leak found\n"
        "tenure: peak memory 30.0 MiB on cpu in step 4; 20.0 MiB of it allocated at train.py:12 in step\n"
        "tenure: advice[TN501]: train.py: add `del x`\n"
        "tenure: trace: t (1 event, 2.0 KiB)\n"
        "tenure: next: `tenure report t` (text) or `tenure view t` (page)\n"
    )


@pytest.mark.parametrize(
    ("run", "first"),
    [
        (Ended("t", judged="all", peak=peak()), "no leak found"),
        (Ended("t", judged="none", limits=["leaks not checked: a; b"], peak=peak()), "leaks not checked: a; b"),
        (
            Ended("t", judged="part", limits=["leaks only partly checked: a"], peak=peak()),
            "no leak found, but not everything was checked: a",
        ),
        (
            Ended("t", judged="none", limits=[f"leaks not checked: {why}" for why in "abcd"], peak=peak()),
            "leaks not checked: a; b; and 2 more, in the report",
        ),
        (
            Ended("t", findings=[LEAK], judged="none", limits=["leaks not checked: a"], peak=peak()),
            "1 leak (TN301); other leaks not checked: a",
        ),
        (
            Ended(
                "t",
                findings=[LEAK],
                judged="part",
                limits=["leaks only partly checked: a", "leaks not checked: b"],
                peak=peak(),
            ),
            "1 leak (TN301); other leaks only partly checked: a; other leaks not checked: b",
        ),
        (Ended("t", judged="all"), "no tensor was allocated during the recording"),
        (Ended("t", findings=[LEAK], judged="all", peak=peak()), "1 leak (TN301)"),
        (Ended("t", findings=[LEAK], unreadable="it is damaged"), "1 leak (TN301): it is damaged"),
        (Ended("t", unreadable="it is damaged"), "leaks not checked: it is damaged"),
        (Ended("t", empty="it failed"), "nothing was recorded: it failed"),
    ],
)
def test_no_leak_is_reported_only_where_leaks_were_looked_for(run, first):
    assert lines(last_lines.render(run, 1000))[0] == first


def test_colour_is_after_the_prefix_and_changes_no_letter():
    run = Ended("t", judged="none", limits=["leaks not checked: " + "so it is " * 20], peak=peak())
    plain, coloured = last_lines.render(run, 60), last_lines.render(run, 60, colour=True)
    assert coloured.startswith("tenure: \x1b[33mleaks not checked\x1b[0m: so")
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert all(line.startswith("tenure: ") for line in coloured.splitlines())


@pytest.mark.parametrize(("set_to", "width"), [("60", 60), ("200", 200), ("5", 40), ("", 120), ("wide", 120)])
def test_the_width_is_the_terminals_unless_the_user_sets_it(set_to, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", set_to)
    assert formats.text.width(120) == width


@pytest.mark.parametrize(("width", "widest"), [(60, 60), (200, 100)])
def test_sentences_of_findings_fit_the_terminal_too(width, widest):
    found = advice(1, "add `del x` after line 3 " + "and so on " * 20)
    lines = formats.full.render([found], width=width).splitlines()
    assert widest - 12 < max(map(len, lines)) <= widest


def test_code_and_amounts_are_not_broken():
    run = Ended("a folder with a long name", 999 << 10, 2, 12345, judged="all", peak=peak())
    for width in range(60, 140):
        text = last_lines.render(run, width)
        assert "`tenure report 'a folder with a long name'`" in text
        assert "999.0 KiB" in text


def test_what_a_trace_says_is_no_command_for_the_terminal():
    text = last_lines.render(Ended("t", judged="none", limits=["leaks not checked: \x1b[2J\x07"], peak=peak()), 80)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_an_error_in_the_summary_is_one_line(monkeypatch, capsys, tmp_path):
    written = []
    monkeypatch.setattr(tenure.console, "write", written.append)
    monkeypatch.setattr(after, "look", lambda *args, **more: 1 // 0)
    monkeypatch.setattr(sys, "argv", ["tenure", str(tmp_path / "t")])
    after.main()
    (text,) = written
    assert text.startswith("tenure: cannot summarise this run: ZeroDivisionError: ")
    assert text.endswith(f"; the trace is in {tmp_path / 't'}\n")
    assert capsys.readouterr() == ("", "")
