"""Advice written into random programs changes no result, and does to the peak what it says."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from random_programs import program
from test_drag import edited, play

from tenure.traces import load


def check(place, first, count):
    files = []
    for seed in range(first, first + count):
        files.append(place / f"p{seed}.py")
        files[-1].write_text(program(seed))
    play("trace", place / "traces", *files)
    told, cured = {}, []
    for file in files:
        drag = load(place / "traces" / file.stem).drag()
        for at, one in enumerate(drag.advice if drag else ()):
            new = file.with_name(f"{file.stem}_{at}.py")
            new.write_text(edited(file.read_text(), one.release.edits))
            told[str(new)] = (str(file), one)
            cured.append(new)
    found = json.loads(play("measure", *files, *cured).splitlines()[-1])
    for new, (old, one) in told.items():
        (result, before), (again, after) = found[old], found[new]
        assert again == result, f"{new}: {one}"
        assert one.peak == pytest.approx(before, rel=0.01), new
        assert before - after == pytest.approx(one.saved, rel=0.05), f"{new}: {one}, but from {before:,} to {after:,}"
    return len(told)


def test_advice_for_random_programs(tmp_path):
    assert check(tmp_path, 0, 20) >= 10


@pytest.mark.long
@pytest.mark.timeout(0)
def test_advice_for_many_random_programs(tmp_path):
    assert check(tmp_path, 1000, 1000) >= 500
