"""What leaks is found with its line, its holder and its code; what only looks so is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import leaking
import leaking_in_projects
import pytest

import tenure
from tenure.analysis import leaks
from tenure.model import Holder, Link, Site
from tenure.trace.suspects import Look, Suspect

LEAKS = leaking.LEAKS | leaking_in_projects.LEAKS
CLEAN = leaking.CLEAN | leaking_in_projects.CLEAN
PROGRAMS = Path(__file__).with_name("programs")


def run(script, tmp_path, *options, arguments=()):
    """The process, and what it found besides advice."""
    out = tmp_path / "findings.json"
    words = ["-fo", str(tmp_path / "trace"), "--findings", str(out), *options, str(script), *arguments]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-m", "tenure", "run", *words], capture_output=True, text=True, env=environment, timeout=280
    )
    return done, [one for one in json.loads(out.read_text()) if one["code"] < "TN500"]


def found_by_run(script, tmp_path, *arguments):
    done, findings = run(script, tmp_path, arguments=arguments)
    assert done.returncode == 0, done.stderr
    return findings, done.stderr


def marked(source, word):
    return [at for at, line in enumerate(source.splitlines(), 1) if line.endswith(f"# {word}")]


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_named(name, tmp_path):
    code, source = LEAKS[name]
    script = tmp_path / "program.py"
    script.write_text(source)
    findings, told = found_by_run(script, tmp_path)
    assert [finding["code"] for finding in findings] == [code], told
    lines = {site["line"] for site in findings[0]["sites"] if site["file"] == str(script)}
    for word in ("born", "held"):
        assert set(marked(source, word)) <= lines, told
    assert f"error[{code}]" in told


OUTPUTS = """
import torch
class Outputs:
    def __init__(self):
        self.by_step = {}
    def on_batch(self, step):
        self.by_step[step] = torch.ones(4096) * step
outputs = Outputs()
for step in range(80):
    outputs.on_batch(step)
"""


def test_the_fix_is_for_what_holds_the_tensors(tmp_path):
    script = tmp_path / "program.py"
    for source, cached in ((OUTPUTS, False), (LEAKS["a cache by step"][1], True)):
        script.write_text(source)
        (finding,), told = found_by_run(script, tmp_path)
        assert finding["code"] == "TN307"
        assert ("lru_cache(maxsize=…)" in told, "A cache helps only" in told) == (cached, cached)
        assert ("`pop`" in told, "A dict keeps a value" in told) == (not cached, not cached)


@pytest.mark.parametrize("name", CLEAN)
def test_what_only_looks_like_a_leak_is_none(name, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(CLEAN[name])
    findings, told = found_by_run(script, tmp_path)
    assert findings == [], told


@pytest.mark.parametrize(
    ("program", "code", "container"),
    [
        ("trainer_callback.py", "TN302", ".kept"),
        ("keras_loop.py", "TN312", "activations"),
        ("optax_loop.py", "TN312", "history"),
    ],
)
def test_of_one_leak_and_three_caches_the_leak_is_named(program, code, container, tmp_path):
    findings, told = found_by_run(PROGRAMS / program, tmp_path, str(tmp_path / "output"))
    assert [finding["code"] for finding in findings] == [code], told
    assert container in findings[0]["message"]


@pytest.mark.parametrize(("steps", "leaked"), [((0, 0, 4, 8), False), ((1, 2, 4, 8), True)])
def test_what_is_made_before_the_first_step_is_no_growth(steps, leaked):
    """As seen in Keras, whose `fit` makes variables, and then goes through its steps."""
    seen = zip((135, 172, 220, 281), steps, (6, 17, 20, 8), (6752, 6776, 6788, 0), (1, 1, 3, 1), strict=True)
    links = (
        Link("model", "global", Site("program.py", 3, "<module>")),
        Link(".kept", "attribute"),
        Link("[1]", "item"),
    )
    suspect = Suspect("tensorflow", "buffers", "program.py:3 in <module>")
    suspect.looks, suspect.holders = [Look(*one) for one in seen], [Holder("global", links)]
    assert bool(leaks.so_far([suspect])) == leaked


@pytest.mark.parametrize("viewed", [0, 4096])
@pytest.mark.parametrize(
    ("counts", "leaked"),
    [
        ((5, 0, 5, 6, 7, 10, 12, 14, 17, 19, 24, 30, 38), True),  # less than five are not counted
        ((14, 12, 17, 15, 22, 19, 27, 25, 38, 33, 48, 42, 62, 55, 80), True),
        ((10, 30, 50, 0, 40, 5, 45, 10, 30, 50, 0, 20, 40), False),  # a list that each epoch empties
        ((12, 3, 15, 8, 10, 4, 15, 6, 9, 11, 16, 13, 14), False),
        ((5, 20, 40, 64, 60, 64, 50, 61, 62, 63, 64), False),  # a cache that is full
        ((20, 0, 20, 0, 20, 0, 20, 0, 20, 0, 20), False),
    ],
)
def test_temporary_buffers_of_a_line_do_not_hide_what_the_line_keeps(counts, leaked, viewed):
    events = [65, 83]
    while len(events) < len(counts):
        events.append(int(events[-1] * 1.28))
    suspect = Suspect("torch", "buffers", "program.py:3 in forward")
    suspect.looks = [
        Look(at, step, count, count << 18, step)
        for step, (at, count) in enumerate(zip(events, counts, strict=True), start=1)
    ]
    links = (Link("seen", "global", Site("program.py", 2, "<module>")), Link("[4]", "item"))
    suspect.holders = [Holder("global", links)]
    suspect.facts = {"graph": False, "viewed": viewed, "whole": 1 << 18}
    assert bool(leaks.so_far([suspect])) == leaked


def test_a_program_that_fails_has_its_leaks_told(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(LEAKS["losses in a dict of lists"][1] + "raise SystemExit('no more')\n")
    done, findings = run(script, tmp_path)
    assert done.returncode == 1
    assert "no more" in done.stderr and "error[TN301]" in done.stderr
    assert [one["code"] for one in findings] == ["TN301"]


def test_quiet_says_nothing_but_keeps_the_findings(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(LEAKS["losses in a dict of lists"][1])
    done, findings = run(script, tmp_path, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["code"] for one in findings] == ["TN301"]


def test_a_trace_of_a_block_tells_its_leaks(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    with tenure.trace(tmp_path / "t"):
        for _ in range(60):
            loss = model(torch.randn(4, 16)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.append(loss)
    trace = tenure.load(tmp_path / "t")
    (leak,) = trace.leaks()
    assert (leak.container, leak.carries_graph, leak.count > 40) == ("kept", True, True)
    assert [finding.code for finding in trace.findings() if finding.severity != "advice"] == ["TN301"]


COMPILED = """
import torch
@torch.compile(backend=lambda graph, inputs: graph.forward)
def f(x):
    print(end="")  # a graph break: what follows is compiled by itself
    return (x * 1.01).sum()
for _ in range(300): f(torch.ones(10)).item()
print(torch._dynamo.utils.counters["frames"]["total"])
"""


def test_the_watch_is_not_compiled(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(COMPILED)
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "tenure", "run", "--quiet", "-o", str(tmp_path / "t"), str(script)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == plain.stdout
