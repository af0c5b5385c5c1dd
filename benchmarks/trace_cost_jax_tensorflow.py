"""What a trace of JAX and TensorFlow costs, as a ratio to the same loop without, side by side.

Writes benchmarks/trace_cost_jax_tensorflow.md.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from ratios import measure, work

from tenure.trace.recorder import Recorder

SIZES = (256, 512, 512, 10)
BATCH = 64


def jax_loop() -> Callable[[], None]:
    """A multilayer perceptron with Adam, one compiled call a step: 19 arrays of state and the loss come out of it."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), len(SIZES))
    params = [
        {"w": jax.random.normal(key, (m, n)) * 0.05, "b": jnp.zeros(n)}
        for key, m, n in zip(keys, SIZES, SIZES[1:], strict=False)
    ]
    state = (params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), jnp.zeros((), int))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(BATCH, SIZES[0])).astype("f"), rng.integers(0, SIZES[-1], BATCH)

    def loss(params, x, y):
        h = x
        for layer in params[:-1]:
            h = jax.nn.relu(h @ layer["w"] + layer["b"])
        h = h @ params[-1]["w"] + params[-1]["b"]
        return -jnp.mean(jax.nn.log_softmax(h)[jnp.arange(BATCH), y])

    @jax.jit
    def train(state, x, y):
        params, first, second, count = state
        value, grads = jax.value_and_grad(loss)(params, x, y)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        params = jax.tree.map(
            lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8),
            params, first, second,
        )  # fmt: skip
        return (params, first, second, count), value

    def step() -> None:
        nonlocal state
        state, value = train(state, jnp.asarray(x), jnp.asarray(y))
        float(value)

    return step


def tensorflow_loop(compiled: bool) -> Callable[[], None]:
    """The same model as a loop with a tape."""
    import tensorflow as tf

    tf.random.set_seed(0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(n, activation="relu") for n in SIZES[1:-1]])
    model.add(tf.keras.layers.Dense(SIZES[-1]))
    optimizer = tf.keras.optimizers.Adam(1e-3)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(BATCH, SIZES[0])).astype("f"), rng.integers(0, SIZES[-1], BATCH)

    def train(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            value = tf.reduce_mean(losses)
        grads = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return value

    run = tf.function(train) if compiled else train

    def step() -> None:
        run(tf.constant(x), tf.constant(y)).numpy()

    return step


@contextlib.contextmanager
def recorded() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "trace")
        recorder.start()
        try:
            yield
        finally:
            recorder.stop()


def events(step: Callable[[], None]) -> float:
    """A step's."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "trace")
        recorder.start()
        for _ in range(100):
            step()
        recorder.stop()
        return recorder.events / 100


LOOPS = {
    "JAX, compiled step": jax_loop,
    "TensorFlow, eager": lambda: tensorflow_loop(compiled=False),
    "TensorFlow, tf.function": lambda: tensorflow_loop(compiled=True),
}


def row(name: str, rounds: int) -> str:
    command = [sys.executable, "-W", "ignore", __file__, "--work", name]
    plain, traced, ratio = measure(command, rounds, seconds=1.0)
    many = subprocess.run([*command, "--events"], check=True, text=True, stdout=subprocess.PIPE).stdout.split()[-1]
    return f"| {name} | {plain * 1e3:.2f} ms | {traced * 1e3:.2f} ms | {float(many):.0f} | {ratio} |"


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        step = LOOPS[sys.argv[2]]()
        if sys.argv[3:]:
            print(events(step))
        else:
            work(lambda _: step(), recorded)
        return
    if sys.argv[1:2] == ["--one"]:
        print(row(sys.argv[2], int(sys.argv[3])))
        return
    quick = "--quick" in sys.argv
    rows = []
    for name in LOOPS:
        rows.append(row(name, 3 if quick else 12))
        print(rows[-1], flush=True)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("jax", "tensorflow-cpu"))
    load = f"load average {os.getloadavg()[1]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    today = datetime.datetime.now(tz=datetime.UTC).date()
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, {load}, {today}"
    text = [
        "# What a trace of JAX and TensorFlow costs",
        "",
        f"A training step of a multilayer perceptron {SIZES} with Adam, batch {BATCH}, on the CPU, in two processes at once,",
        "each with half of the cores: one with a trace, one without, for a second after half a second of warm-up, and then",
        "the other way round. The ratio is the median of the rounds, with its 95% interval. Made",
        "by `python benchmarks/trace_cost_jax_tensorflow.py`.",
        "",
        f"{versions}, {machine}.",
        "",
        "| loop | step | step in a trace | events per step | ratio |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
    if not quick:
        out = Path(os.environ.get("OUT", Path(__file__).parent))
        (out / "trace_cost_jax_tensorflow.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
