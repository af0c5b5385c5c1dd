"""The birth hook, the counts of references and torch's handles, natively and in Python: programs end the same way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
PROGRAM = Path(__file__).with_name("same_endings.py")


def agree(first, count, steps):
    command = [sys.executable, "-W", "ignore", str(PROGRAM), *map(str, (first, count, steps))]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **more})
        for more in ({"TENURE_NATIVE": "1"}, {"TENURE_NATIVE": "0"})
    ]
    natively, in_python = (child.communicate() for child in running)
    assert [child.returncode for child in running] == [0, 0], natively[1][-2000:] + in_python[1][-2000:]
    both = [list(map(json.loads, out.splitlines())) for out, _ in (natively, in_python)]
    assert len(both[0]) == len(both[1]) == count
    ends = 0
    for seed, ((one, *told), (other, *again)) in enumerate(zip(*both, strict=True), first):
        assert one[1] == other[1], f"program {seed} logs other numbers"
        # The order of ends within one scope is that of sets.
        assert sorted(one[0]) == sorted(other[0]), f"program {seed} ends other handles"
        assert told == again, f"seed {seed}: an ended handle says something else"
        ends += len(one[0])
    assert ends > count


def test_programs_end_the_same_handles():
    agree(1, 3, 30)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_programs_end_the_same_handles():
    agree(1000, 300, 120)
