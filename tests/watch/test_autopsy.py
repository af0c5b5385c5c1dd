"""When memory runs out, what was alive is told by line and holder, and the error goes on as it was."""

import os
import subprocess
import sys

import pytest

import tenure
from tenure.trace import autopsies
from tenure.views.console.autopsy import render

TORCH = """
import torch
cache = [torch.zeros(1 << 18) for _ in range(6)]  # first
def train():
    weights = torch.ones(1 << 20)  # second
    try:
        torch.empty(1 << 50)
    except RuntimeError as error:
        print("caught", type(error).__name__)
train()
"""
JAX = """
import jax.numpy as jnp
table = jnp.ones((1 << 20,))  # second
def train():
    x = jnp.zeros((1 << 22,))  # first
    return jnp.broadcast_to(x[0], (1 << 46,)) + 1
train()
"""
TENSORFLOW = """
import tensorflow as tf
table = tf.ones((1 << 20,))  # second
def train():
    x = tf.ones((1 << 21,))  # first
    return tf.zeros((1 << 44,)) + 1
train()
"""
CAP = """
import tenure, torch
weights = torch.ones(1 << 18)  # second
with tenure.scope("step", cap="8 MiB"):
    parts = []
    for _ in range(4):
        parts.append(torch.ones(1 << 20))  # first
"""


def run(source, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(source)
    command = [sys.executable, "-m", "tenure", "run", "-fo", str(tmp_path / "trace"), str(script)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    return done, autopsies.heard(tmp_path / "trace")


def line(source, word):
    return next(at for at, text in enumerate(source.splitlines(), 1) if text.endswith(f"# {word}"))


@pytest.mark.parametrize(
    ("source", "wanted", "holders"),
    [
        pytest.param(TORCH, 4 << 50, ("cache", "weights"), id="torch"),
        pytest.param(JAX, 4 << 46, ("x", "table"), id="jax"),
        pytest.param(TENSORFLOW, None, ("x", "table"), id="tensorflow"),
        pytest.param(CAP, None, ("parts", "weights"), id="cap"),
    ],
)
def test_the_moment_is_told(source, wanted, holders, tmp_path):
    done, (found,) = run(source, tmp_path)
    assert found.wanted == wanted
    assert [int(part.stack.partition(":")[2].partition(" ")[0]) for part in found.parts[:2]] == [
        line(source, "first"),
        line(source, "second"),
    ]
    for part, holder in zip(found.parts, holders, strict=False):
        assert holder in str(part.holders[0])
    assert "out of memory in step 0" in done.stderr
    assert f"program.py:{line(source, 'first')}" in done.stderr


def test_the_error_is_the_scripts_own(tmp_path):
    done, _ = run(JAX, tmp_path)
    assert done.returncode == 1
    assert "RESOURCE_EXHAUSTED: Out of memory allocating" in done.stderr


def test_where_nothing_was_alive_nothing_is_announced():
    told = render(autopsies.Autopsy("TensorFlow: OOM", None, "", 0, 0, []))
    assert told.endswith("allocated at that time: 0 bytes\n")


def test_nobody_is_told_after_the_trace(tmp_path):
    torch = pytest.importorskip("torch")
    with tenure.trace(tmp_path / "t"):
        torch.ones(3)
    with pytest.raises(RuntimeError, match="allocate"):
        torch.empty(1 << 50)
    assert autopsies.heard(tmp_path / "t") == []
