"""Random programs of another kind, each against its plain self; see `other_worlds.py`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BATCH = 100  # programs a process


def agree(framework, first, count, steps):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(HERE / "other_worlds.py"),
        framework,
        *map(str, (first, count, steps)),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-1500:]}"
    assert f"{count} programs, 0 differ" in done.stdout


@pytest.mark.parametrize(("framework", "count", "steps"), [("torch", 20, 60), ("jax", 5, 40), ("tensorflow", 5, 40)])
def test_programs_are_as_without_tenure(framework, count, steps):
    agree(framework, 1, count, steps)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("framework", "count"), [("torch", 2000), ("jax", 300), ("tensorflow", 300)])
def test_many_programs_are_as_without_tenure(framework, count):
    for first in range(10_000, 10_000 + count, BATCH):
        agree(framework, first, BATCH, 120)
