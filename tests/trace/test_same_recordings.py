"""The recorders, natively and in Python: of a random program both write the same buffers."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tenure.traces import load

PROGRAM = Path(__file__).with_name("same_recordings.py")


def recorded(place, name, seed, steps):
    running = []
    for native in "10":
        command = [sys.executable, "-W", "ignore", str(PROGRAM), name, str(place / native), str(seed), str(steps)]
        environment = {**os.environ, "TENURE_NATIVE": native}
        running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment))
    errors = [child.communicate()[1] for child in running]
    assert [child.returncode for child in running] == [0, 0], errors[0][-2000:] + errors[1][-2000:]
    return [load(place / native) for native in "10"]


def tensorflow_buffers(trace):
    """All that is recorded of each, but which operations read a variable: callbacks do not see that (docs/limits.md)."""
    known = Counter()
    for row in trace.sql("select * from buffers").to_pylist():
        names = ["bytes", "device", "shape", "dtype", "site", "op", "kind", "cause"]
        known[tuple(row[name] for name in names + ["uses", "last_op"] * (row["op"] != "VarHandleOp"))] += 1
    return known


def check(place, seed, steps):
    pytest.importorskip("tensorflow")
    natively, in_python = map(tensorflow_buffers, recorded(place, "tensorflow", seed, steps))
    assert natively - in_python == in_python - natively == Counter()
    assert sum(natively.values()) > steps


def test_tensorflow(tmp_path):
    check(tmp_path, 5, 40)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(10, 30))
def test_tensorflow_in_many_programs(tmp_path, seed):
    check(tmp_path, seed, 120)
