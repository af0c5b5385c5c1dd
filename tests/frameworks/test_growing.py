"""What watches for growth stands in nobody's way: no frame in a traceback, no error told twice; and it looks everywhere."""

import inspect
import json
import os
import subprocess
import sys
import traceback

import pytest

from tenure.frameworks.growing.before import Before
from tenure.trace import autopsies


class Engine:
    def run(self, value, *, fails=False):
        """Runs."""
        if fails:
            raise ValueError(value)
        return self, value


class Faster(Engine):
    def run(self, value, **more):
        return super().run(value, **more)


@pytest.fixture
def seen(monkeypatch):
    seen = []
    monkeypatch.setattr(Engine, "run", Before(Engine.run, seen.append))
    return seen


def test_the_hook_runs_at_each_call(seen):
    engine = Engine()
    run = engine.run
    assert seen == []  # not when it is only looked at
    assert run(1) == run(value=1) == (engine, 1)
    assert seen == [engine, engine]
    faster = Faster()
    assert faster.run(2) == (faster, 2)
    assert seen[2:] == [faster]


def test_the_traceback_is_the_callers_and_the_methods(seen):
    with pytest.raises(ValueError) as caught:
        Engine().run("no", fails=True)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)] == [
        "test_the_traceback_is_the_callers_and_the_methods",
        "run",
    ]
    with pytest.raises(TypeError, match=r"Engine\.run\(\) missing 1 required positional argument: 'value'"):
        Engine().run()


def test_it_looks_like_the_method(seen):
    engine = Engine()
    assert callable(engine.run)
    assert str(inspect.signature(engine.run)) == "(value, *, fails=False)"
    assert (engine.run.__name__, engine.run.__doc__, engine.run.__self__) == ("run", "Runs.", engine)
    assert Engine.run(engine, 3) == (engine, 3)
    assert not hasattr(engine.run, "anything")


FAILING = """
import json, traceback
import tensorflow as tf
v1 = tf.compat.v1

def told(fails):
    try:
        fails()
    except Exception as error:
        return type(error).__name__, [frame.filename for frame in traceback.extract_tb(error.__traceback__)]

@tf.function
def traced(x):
    return int("a")

@tf.function
def wide(count):
    return tf.reduce_sum(tf.random.uniform([count]))

def own():
    raise tf.errors.ResourceExhaustedError(None, None, "made by the script")

with tf.Graph().as_default():
    size = v1.placeholder(tf.int64, [])
    total = tf.reduce_sum(tf.random.uniform([size]))
    session = v1.Session()
huge = 1 << 42
print(json.dumps({
    "session": told(lambda: session.run(total)),
    "operation": told(lambda: tf.raw_ops.MatMul(a=tf.ones([1, 2]), b=tf.ones([3, 4]))),
    "function": told(lambda: traced(1)),
    "tape": told(lambda: tf.GradientTape(wrong=1)),
    "memory": told(lambda: session.run(total, {size: huge})),
    "memory in a function": told(lambda: wide(tf.constant(huge, tf.int64))),
    "memory, says the script": told(own),
}))
"""
KINDS = {
    "session": "InvalidArgumentError",
    "operation": "InvalidArgumentError",
    "function": "ValueError",
    "tape": "TypeError",
    "memory": "ResourceExhaustedError",
    "memory in a function": "ResourceExhaustedError",
    "memory, says the script": "ResourceExhaustedError",
}


def test_what_fails_in_tensorflow_fails_without_our_frames(tf, tmp_path):
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    command = [sys.executable, "-m", "tenure", "run", "--quiet", "-fo", str(tmp_path / "trace"), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {what: kind for what, (kind, _) in told.items()} == KINDS
    for what, (_, files) in told.items():
        assert not [file for file in files if "/tenure/" in file], what
    # Each want of memory once, though a session makes two errors of it; and not what the script made itself.
    found = autopsies.heard(tmp_path / "trace")
    assert ["OOM when allocating" in one.why for one in found] == [True, True]


PLATFORMS = """
import jax
from jax._src import xla_bridge
from jax.extend import backend
from tenure.frameworks.growing.jax import Jax
from tenure.frameworks.jax import ADAPTER

assert list(ADAPTER.live()) == [] and not xla_bridge.backends_are_initialized()  # to look begins nothing

# Another client of the host under another name: the default, as a GPU would be where there is one.
backend.register_backend_factory("another", xla_bridge.make_cpu_client, priority=500, fail_quietly=False)
import jax.numpy as jnp
here = [jnp.ones(3) for _ in range(7)]
host = xla_bridge.backends()["cpu"].devices()[0]
there = [jax.device_put(jnp.ones(3), host) for _ in range(9)]
assert len(jax.live_arrays()) == 7
print(sorted(crowd.count for crowd in Jax(None).buffers()))
"""


def test_arrays_of_every_platform_are_seen(jax):
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    done = subprocess.run([sys.executable, "-c", PLATFORMS], capture_output=True, text=True, env=environment)
    assert done.stdout == "[7, 9]\n", done.stderr


@pytest.mark.parametrize(
    ("grown", "runs", "goes_on"),
    [
        (range(40), 40, True),  # before every run
        (range(2, 40, 3), 40, True),  # a snapshot after every third
        ([9, 19, 29, 39], 45, True),
        (range(6), 40, False),  # the graph is built piece by piece, then only run
        ([0, 1, 2, 3, 20], 40, False),
    ],
)
def test_a_graph_that_regularly_grows_is_told_from_one_that_was_built(grown, runs, goes_on):
    tensorflow = pytest.importorskip("tenure.frameworks.growing.tensorflow")
    assert tensorflow._goes_on(list(grown), runs) is goes_on
