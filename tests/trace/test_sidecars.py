"""Lines beside a stream that hold other types than a recorder writes: passed over, whatever reads them."""

import dataclasses
import json
import random

import pytest
from made_traces import make

from tenure.cli import main
from tenure.findings import Edit, Finding, Fix, Place
from tenure.model import Holder, Link, Site
from tenure.trace import autopsies, donations, suspects, told

ODD = [None, True, 0, -1, 1 << 70, 1.5, float("nan"), "", "x", "\ud800", [], {}, [1], [None], {"a": 1}]
HOLDER = Holder("global", (Link("history", "global", Site("/a.py", 3)), Link("[3]", "item")), 5)
STACK = "/a.py:3 in f\n/a.py:9 in <module>"


def changed(rng, value, depth=0):
    """The value with something in it replaced."""
    if depth and rng.random() < 0.2:
        return rng.choice(ODD)
    if isinstance(value, dict) and value:
        name = rng.choice(list(value))
        return {**value, name: changed(rng, value[name], depth + 1)}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return [*value[:at], changed(rng, value[at], depth + 1), *value[at + 1 :]]
    return rng.choice(ODD)


def test_what_was_written_is_read(tmp_path):
    looks = [suspects.Look(at, at, at, at, at) for at in range(10)]
    suspect = suspects.Suspect("torch", "buffers", STACK, "w", looks, [HOLDER], {"graph": True, "shape": [3]})
    part = autopsies.Part("torch", STACK, 3, 5, 0.5, {"dtype": "float32"}, [HOLDER])
    autopsy = autopsies.Autopsy("why", None, STACK, 3, 5, [part])
    refused = donations.Refused("jax", "f", STACK, STACK, 1, 2, 3, [HOLDER])
    edit = Edit("/a.py", (1, 2), (1, 3), "x")
    finding = Finding("TN301", "loss", "it", (Place("use", "/a.py", 3),), fix=Fix("do", True, (edit,)))
    suspects.tell(tmp_path, [suspect])
    autopsies.tell(tmp_path, autopsy)
    donations.tell(tmp_path, [refused])
    told.tell(tmp_path, finding)
    assert suspects.heard(tmp_path) == [suspect]
    assert autopsies.heard(tmp_path) == [autopsy]
    assert donations.heard(tmp_path) == [refused]
    assert [one.as_dict() for one in told.heard(tmp_path)] == [finding.as_dict()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sidecars") / "run"
    make(folder)
    return folder


def test_no_line_is_a_traceback(run, capsys):
    rng = random.Random(11)
    looks = [suspects.Look(100 * at, at, at, at * 100, at) for at in range(30)]
    suspect = suspects.Suspect("torch", "buffers", STACK, "", looks, [HOLDER], {"graph": True, "whole": 5, "bytes": 3})
    autopsy = autopsies.Autopsy("why", 5, STACK, 3, 5, [autopsies.Part("torch", STACK, 3, 5, holders=[HOLDER])])
    refused = donations.Refused("jax", "f", STACK, STACK, 1, 2, 3, [HOLDER])
    finding = Finding("TN301", "loss", "it", (Place("use", "/a.py", 3),), evidence={"path": ["a", "b"], "suspect": 1})
    written = {
        "suspects": dataclasses.asdict(suspect),
        "autopsy": dataclasses.asdict(autopsy),
        "donations": dataclasses.asdict(refused),
        "findings": finding.as_dict(),
    }
    for _ in range(30):
        for name, value in written.items():
            lines = [json.dumps(changed(rng, json.loads(json.dumps(value)))) for _ in range(5)]
            (run / f"{name}-1.jsonl").write_text("\n".join(lines) + "\n")
        assert main(["report", str(run), "--format", rng.choice(["full", "json"])]) in (0, 1)  # 1: it has findings
        capsys.readouterr()
