"""Tracing changes nothing: real training programs give the same numbers, to the bit, with and without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tenure

PROGRAMS = Path(__file__).parent / "programs"
pytestmark = pytest.mark.timeout(600)


def run(program, *arguments, folder=None, launcher=(), native="1"):
    command = [sys.executable, *launcher, str(PROGRAMS / program), *arguments]
    env = {**os.environ, "TENURE_NATIVE": native, "OMP_NUM_THREADS": "1", "KERAS_BACKEND": "tensorflow"}
    if folder is not None:
        env["TENURE_TRACE"] = str(folder)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]  # the digest; libraries print how long they took


TRAINER_STEPS = "40"


@pytest.fixture(scope="module")
def trained():
    """What a Trainer gives without tracing. Workers that load the data change nothing of it either."""
    pytest.importorskip("transformers")
    return run("trainer.py", TRAINER_STEPS, "0")


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_hugging_face_trainer(tmp_path, native, torch, trained):
    assert run("trainer.py", TRAINER_STEPS, "0", folder=tmp_path / "t", native=native) == trained
    (table,) = tenure.load(tmp_path / "t").sql("select count(*) n from events where event = 'step'").to_pylist()
    assert table["n"] == int(TRAINER_STEPS)


def test_a_hugging_face_trainer_with_four_workers(tmp_path, torch, trained):
    assert run("trainer.py", TRAINER_STEPS, "4", folder=tmp_path / "t") == trained
    assert len(list((tmp_path / "t").glob("*.arrows"))) == 1 + 3 * 4  # an epoch has sixteen steps, and its own workers


def test_keras_fit(tmp_path, tf):
    assert run("keras_fit.py", "50") == run("keras_fit.py", "50", folder=tmp_path / "t")
    assert tenure.load(tmp_path / "t").sql("select * from buffers").num_rows


def test_a_jax_loop_with_optax(tmp_path, jax):
    pytest.importorskip("optax")
    assert run("optax_loop.py", "50") == run("optax_loop.py", "50", folder=tmp_path / "t")
    assert tenure.load(tmp_path / "t").sql("select * from buffers where cause = 'donate'").num_rows


def test_torch_compile(tmp_path, torch):
    assert run("compiled.py", "50") == run("compiled.py", "50", folder=tmp_path / "t")
    assert tenure.load(tmp_path / "t").sql("select * from buffers").num_rows


def run_ranks(folder=None):
    """Two of them, once more where torch aborts at their end, as it does untraced in one run of 24 on a busy machine."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    for left in (2, 1, 0):
        try:
            return run("ranks.py", launcher=launcher, folder=folder)
        except AssertionError as error:
            if not left or "terminate called without an active exception" not in str(error):
                raise
    raise AssertionError


def test_two_ranks(tmp_path, torch):
    assert run_ranks() == run_ranks(tmp_path / "t")
    ranks = {process.rank for process in tenure.load(tmp_path / "t").processes}
    assert {0, 1} <= ranks, json.dumps(list(ranks))
