"""Programs that tenure had not seen when they were written: what it finds in them, and that their fixed twins are free of findings.

known_misses.toml lists what it does not find yet, and which correct programs it reports. A listed case that has become right
fails its test, so that the lists only shrink. The figures of the first measurements are in benchmarks/first_contact.md.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KNOWN = tomllib.loads((HERE / "known_misses.toml").read_text())
CASES = {
    path.parent.name: tomllib.loads(path.read_text()) | {"folder": path.parent}
    for path in sorted(HERE.glob("batch_*/*/case.toml"))
}
BUGS = [name for name, case in CASES.items() if case["kind"] != "clean"]
RUNNABLE = [name for name, case in CASES.items() if case["kind"] in ("error", "leak", "clean")]
ERRORS = [name for name, case in CASES.items() if case["kind"] == "error"]
# These few run in CI as well: two of each kind, which are quick.
QUICK = {
    "grad-norm-after-optimizer-step", "jax-early-stop-in-jit",
    "prompt-embedding-cache", "relevance-hook-own-output",
    "clean-ordered-dict-eviction", "clean-jax-donated-host-snapshot",
}  # fmt: skip
ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}


def quick_or_long(names):
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in names]


def call(*arguments, **environment):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env={**ENVIRONMENT, **environment})


def is_hit(finding, case):
    """Return whether the finding has an accepted code and a site within one line of a labelled line of bug.py."""
    sites = [finding, *finding.get("sites", [])]
    lines = {site["line"] for site in sites if site.get("line") and Path(site.get("file") or "").name == "bug.py"}
    labelled = {case["birth_line"], case["use_line"], *case.get("lines", [])}
    return finding["code"] in case["codes"] and any(abs(line - label) <= 1 for line in lines for label in labelled)


def is_alarm(finding):
    return finding["code"][2] in "1234"


def expect_found(mode, name, findings):
    found = any(is_hit(finding, CASES[name]) for finding in findings)
    if name in KNOWN[mode]["missed"]:
        assert not found, f"{name} is found now: take it out of [{mode}] missed"
    else:
        assert found, [(finding["code"], finding["line"], finding["message"]) for finding in findings]


def expect_silence(mode, name, findings):
    alarms = [(finding["code"], finding["line"], finding["message"]) for finding in findings if is_alarm(finding)]
    if name in KNOWN[mode]["alarms"]:
        assert alarms, f"{name} gets no finding now: take it out of [{mode}] alarms"
    else:
        assert not alarms


@pytest.fixture(scope="module")
def checked():
    """The findings of `tenure check` by file, from one process for all programs."""
    files = [file for case in CASES.values() for file in sorted(case["folder"].glob("*.py"))]
    done = call("-m", "tenure", "check", "--no-cache", "--format", "json", *files)
    by_file = {}
    for finding in json.loads(done.stdout):
        by_file.setdefault(Path(finding["file"]).resolve(), []).append(finding)
    return by_file


def recorded(file, folder):
    findings = folder / "findings.json"
    done = call("-m", "tenure", "run", "-o", folder / "trace", "--findings", findings, file, STEPS="40")
    assert findings.exists(), done.stderr[-1000:]
    return json.loads(findings.read_text())


def test_the_lists_name_existing_cases():
    listed = {name for mode in KNOWN.values() for names in mode.values() for name in names}
    assert listed <= set(CASES)
    assert set(CASES) >= QUICK


@pytest.mark.parametrize("name", [name for name in BUGS if CASES[name]["static"]])
def test_check_finds(name, checked):
    expect_found("check", name, checked.get(CASES[name]["folder"] / "bug.py", []))


@pytest.mark.parametrize("name", CASES)
def test_check_is_silent_on_correct_programs(name, checked):
    expect_silence("check", name, checked.get(CASES[name]["folder"] / "fixed.py", []))


@pytest.mark.parametrize("name", quick_or_long(name for name in RUNNABLE if CASES[name]["kind"] != "clean"))
def test_run_finds(name, tmp_path):
    expect_found("run", name, recorded(CASES[name]["folder"] / "bug.py", tmp_path))


@pytest.mark.parametrize("name", quick_or_long(RUNNABLE))
def test_run_is_silent_on_correct_programs(name, tmp_path):
    expect_silence("run", name, recorded(CASES[name]["folder"] / "fixed.py", tmp_path))


@pytest.mark.parametrize("name", quick_or_long(ERRORS))
def test_log_is_explained(name, tmp_path):
    log = tmp_path / "program.log"
    log.write_text(call(CASES[name]["folder"] / "bug.py", STEPS="4").stderr)
    done = call("-m", "tenure", "explain", "--format", "json", log)
    expect_found("log", name, json.loads(done.stdout))
