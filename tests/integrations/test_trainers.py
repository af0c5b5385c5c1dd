"""Each trainer's callback in a real, small training: the same results to the bit, numbers in the logs, findings."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
NUMBERS = ("tenure/bytes", "tenure/peak_bytes", "tenure/growth_per_step")
QUIET = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"}


def ran(program, folder):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAMS / program), str(folder)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=os.environ | QUIET,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def of_torch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torch")
    return (*ran("torch_trainers.py", folder), folder)


@pytest.fixture(scope="module")
def of_keras(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keras")
    return (*ran("keras_trainer.py", folder), folder)


def events(folder):
    """What TensorBoard itself reads: scalars by tag (those of TensorFlow are tensors), and texts."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    read = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    read.Reload()
    found = {tag: [(one.step, one.value) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
    for tag in read.Tags()["tensors"]:
        found[tag] = [(one.step, tensor_util.make_ndarray(one.tensor_proto).item()) for one in read.Tensors(tag)]
    return found


def test_hugging_face(of_torch):
    told, said, folder = of_torch
    run = told["transformers"]
    assert run["same"]
    assert run["steps"] == 24
    logged = [entry for entry in run["logs"] if "loss" in entry]
    assert len(logged) == 6
    assert all(entry[name] is not None for entry in logged for name in NUMBERS)
    assert all(entry["tenure/peak_bytes"] > entry["tenure/bytes"] > 0 for entry in logged)
    assert run["codes"] == ["TN301"]  # of the losses that the program keeps
    assert "error[TN301]" in said
    assert f"tenure report {run['path']}" in said
    # The trainer's own reporter wrote them too.
    (board,) = {path.parent for path in folder.rglob("events.out.tfevents.*")}
    scalars = events(board)
    assert [step for step, _ in scalars["train/tenure/peak_bytes"]][:6] == [4, 8, 12, 16, 20, 24]
    assert [value for _, value in scalars["train/tenure/bytes"]][:6] == [entry["tenure/bytes"] for entry in logged]


def test_lightning(of_torch):
    run = of_torch[0]["lightning"]
    assert run["same"]
    assert run["steps"] == 16
    assert run["codes"] == []
    rows = list(csv.DictReader(io.StringIO(run["logs"][0])))
    assert [int(row["step"]) for row in rows] == [2, 4, 6, 8, 10, 12, 14, 16]
    assert all(float(row["tenure/peak_bytes"]) >= float(row["tenure/bytes"]) > 0 for row in rows)
    assert all(abs(float(row["tenure/growth_per_step"])) < 256 for row in rows[2:])


def test_keras(of_keras):
    run, _, folder = of_keras
    assert run["same"]
    assert run["steps"] == 12
    assert run["codes"] == []
    assert all(len(run["history"][name]) == 3 for name in NUMBERS)
    scalars = events(folder / "board" / "train")
    assert [value for _, value in scalars["epoch_tenure/bytes"]] == run["history"]["tenure/bytes"]


def test_tensorflow_writes_what_it_is_given(of_keras):
    scalars = events(of_keras[2] / "summary")
    assert [step for step, _ in scalars["tenure/step_bytes"]] == list(range(12))
    assert scalars["tenure/peak_bytes"][0][1] > 0
    assert [step for step, _ in scalars["tenure/bytes"]] == [5, 6]
