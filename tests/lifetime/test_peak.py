"""A scope holds weakly: it lengthens no life and does not raise the peak."""

import os
import subprocess
import sys
import weakref

import pytest
import torch

import tenure

LOOP = """
import contextlib, pathlib, sys
import torch
torch.set_num_threads(1)
import tenure
mebibyte = 1 << 20

def memory(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

def loop():
    x = torch.zeros(mebibyte)
    for _ in range(40):
        x = (x + 1) * 0.5
    return x.sum().item()

with tenure.scope():  # the hook, and whatever else is made once
    (torch.zeros(4) + 1).sum().item()
pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
before = memory("VmRSS")
with tenure.scope("loop") if sys.argv[1] == "scope" else contextlib.nullcontext():
    loop()
print(memory("VmHWM") - before)
"""


def growth(kind):
    # Freed blocks go back to the system at once, so that the peak is what lived together.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", LOOP, kind]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=env) for _ in range(3)]
    return min(int(run.stdout) for run in runs)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
def test_forty_temporaries_of_four_mebibytes_do_not_raise_the_peak():
    plain, scoped = growth("plain"), growth("scope")
    assert plain >= 4 << 20, "the loop must be seen at all"
    assert scoped <= 1.1 * plain


def test_a_temporary_dies_at_its_statement_inside_a_scope():
    with tenure.scope() as scope:
        temporary = torch.ones(10)
        dead = weakref.ref(temporary)
        del temporary
        assert dead() is None
        assert scope.tensors() == []


def test_a_long_scope_stays_as_small_as_what_lives_in_it():
    from tenure.lifetime import regions

    with tenure.scope():
        kept = [torch.ones(1) for _ in range(100)]
        for _ in range(20_000):
            torch.ones(1)
        assert len(regions.opened()[0].births) < 1000
        assert len(regions.opened()[0].records()) == len(kept)
