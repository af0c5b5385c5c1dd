"""`tenure doctor`: it says what is there, imports none of it, and never fails."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import tenure
from tenure import cli
from tenure.cli import doctor

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}


def told(*words, **more):
    command = [sys.executable, "-m", "tenure", "doctor", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=CLEAN | more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_people_read_what_is_there():
    text = told()
    assert f"tenure        {tenure.__version__}\n" in text
    assert f"numpy         {metadata.version('numpy')}\n" in text
    for name in ("Python", "platform", "torch", "jax", "tensorflow", "pyarrow", "duckdb", "cache", "tenure_stacks"):
        assert name in text


def test_machines_read_the_same():
    found = json.loads(told("--format", "json"))
    assert found["tenure"] == tenure.__version__
    assert found["frameworks"]["numpy"] == {
        "version": metadata.version("numpy"), "tested": True, "tested_versions": ["2"]
    }  # fmt: skip
    assert found["packages"]["pyarrow"] == metadata.version("pyarrow")
    for name in ("tenure_births", "tenure_references", "tenure_stacks"):
        assert found["native"][name]["state"] in ("active", "off")
    if found["frameworks"]["torch"]["version"]:
        assert found["native"]["tenure_torch_handles"]["state"] in ("built", "not built")
    assert found["cache_not_used"] == []


def test_what_is_off_has_a_reason():
    parts = json.loads(told("--format", "json", TENURE_NATIVE="0"))["native"]
    assert parts
    assert {(part["state"], part["why"]) for part in parts.values()} == {("off", "switched off by TENURE_NATIVE=0")}


def test_no_compiler(tmp_path):
    nothing = {"PATH": "/nonexistent", "TENURE_CACHE_DIR": str(tmp_path)}
    found = json.loads(told("--format", "json", **nothing))
    assert found["compilers"] == {"C": None, "C++": None}
    assert found["native"]["tenure_births"] == {"state": "off", "why": "no C compiler (cc, gcc, clang)"}
    assert found["cache"] == str(tmp_path / "tenure/native")


def test_nothing_is_imported():
    names = {"torch", "jax", "tensorflow", "numpy", "pyarrow", "duckdb"}
    code = f"import sys, tenure.cli as c; c.main(['doctor']); assert not {names!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=CLEAN)


def test_building_says_what_became_of_it(torch, capsys):
    assert cli.main(["doctor", "--build", "--format", "json"]) == 0
    parts = json.loads(capsys.readouterr().out)["native"]
    for name in ("tenure_torch_handles", "tenure_torch_recorder"):
        assert parts[name]["state"] == "active" or parts[name]["why"]
    later = json.loads(told("--format", "json"))["native"]  # which imports nothing, and finds what was built
    for name, part in parts.items():
        if part["state"] == "active":
            assert later[name]["state"] in ("active", "built")


def test_no_part_is_left_out():
    """Each source in native/ that is a module of its own."""
    parts = json.loads(told("--format", "json", TENURE_NATIVE="0"))["native"]
    sources = {f"tenure_{path.stem}" for path in (Path(__file__).parents[2] / "native").glob("*.c*")}
    assert set(parts) == sources


@pytest.mark.parametrize(
    ("version", "tested"), [("2.13.0+cpu", True), ("2.11", True), ("2.1.0", False), ("2.130", False), ("3.0", False)]
)
def test_versions(monkeypatch, version, tested):
    monkeypatch.setattr(doctor, "_version", lambda package: version if package == "torch" else None)
    found = doctor.look()
    assert found["frameworks"]["torch"]["tested"] is tested
    assert found["frameworks"]["jax"] == {
        "version": None,
        "tested": None,
        "tested_versions": ["0.4.38", "0.6.2", "0.7.0", "0.9.2", "0.10", "0.11", "0.12"],
    }
    lines = [line for line in doctor._told(found) if line.startswith("torch")]
    assert lines[0].endswith("(not a tested version; tested: 2.11, 2.13)") is not tested
