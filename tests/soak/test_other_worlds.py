"""Random programs of another kind, each against its plain self; see `other_worlds.py`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BATCH = 100  # programs a process
MANY = [
    (name, first)
    for name, count in (("torch", 2000), ("jax", 300), ("tensorflow", 300))
    for first in range(0, count, BATCH)
]


def agree(world, first, count, steps):
    pytest.importorskip(world)
    command = [sys.executable, "-W", "ignore", str(HERE / "other_worlds.py"), world, *map(str, (first, count, steps))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-1500:]}"
    *_, verdict, counts = done.stdout.splitlines()
    assert verdict == f"{count} programs, 0 differ"
    counts = json.loads(counts)
    assert counts.pop("TensorReleased") == 0
    # Programs in which none of these happens would agree whatever tenure did.
    assert counts["steps"] == count * steps
    assert {name for name, number in counts.items() if number} == {
        "steps", "in threads", "interrupted", "errors", "disposed", "scopes", "scopes that released", "released"
    }  # fmt: skip
    print(world, first, count, counts)


@pytest.mark.parametrize(("world", "count", "steps"), [("torch", 20, 60), ("jax", 5, 40), ("tensorflow", 5, 40)])
def test_programs_are_as_without_tenure(world, count, steps):
    agree(world, 1, count, steps)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("world", "first"), MANY)
def test_many_programs_are_as_without_tenure(world, first):
    agree(world, 10_000 + first, BATCH, 120)
