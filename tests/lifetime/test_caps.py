"""A cap is exceeded wherever a framework makes a tensor: CapExceeded arrives, and nothing else happens."""

import subprocess
import sys
import threading

import pytest

import tenure
from tenure.lifetime import births_twin, regions

natively = pytest.mark.skipif(
    regions.hook() is births_twin, reason="without native parts a cap is compared at the exit"
)

TENSORFLOW = """
import numpy as np
import tensorflow as tf
import tenure

ones = np.ones(1 << 16, "float32")

class Kept(tf.keras.layers.Layer):
    def call(self, x):
        self.kept = [tf.ones((1 << 16,)) for _ in range(20)]
        return x

def dense():
    layer = tf.keras.layers.Dense(1 << 16)
    return [layer(tf.ones((1, 4))) for _ in range(20)]

def taped():
    variable, found = tf.Variable(ones), []
    for _ in range(20):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * variable)
        found.append(tape.gradient(loss, variable))

cases = {
    "fill": lambda: [tf.fill((1 << 16,), float(i)) for i in range(20)],
    "ones": lambda: [tf.ones((1 << 16,)) for i in range(20)],
    "constant": lambda: [tf.constant(float(i), shape=(1 << 16,)) for i in range(20)],
    "convert": lambda: [tf.convert_to_tensor(ones + i) for i in range(20)],
    "layer": lambda: Kept()(tf.ones((1, 2))),
    "dense": dense,
    "tape": taped,
    "map_fn": lambda: tf.map_fn(lambda x: x + [tf.fill((1 << 16,), 1.0) for _ in range(20)][0][0], tf.ones(3)),
}
for name, make in cases.items():
    try:
        with tenure.scope(cap="1 MiB"):
            make()
        print(name, "nothing")
    except tenure.CapExceeded as error:
        print(name, "its cap is 1.0 MiB" in str(error))
"""


@natively
def test_tensorflow_raises_cap_exceeded_whatever_makes_the_tensor():
    pytest.importorskip("tensorflow")
    done = subprocess.run([sys.executable, "-c", TENSORFLOW], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    made = ("fill", "ones", "constant", "convert", "layer", "dense", "tape", "map_fn")
    assert done.stdout.split("\n")[:-1] == [f"{name} True" for name in made]


@natively
def test_torch_raises_in_the_midst_of_a_librarys_own_code():
    torch = pytest.importorskip("torch")
    ran = []
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
    for layer in model:
        layer.register_forward_hook(lambda *_: ran.append(1))
    with pytest.raises(tenure.CapExceeded), tenure.scope(cap=64 * 64 * 4 * 3):
        model(torch.ones(64, 64))
    assert 1 <= len(ran) <= 4


@natively
def test_torch_raises_in_another_thread():
    torch = pytest.importorskip("torch")
    caught = []

    def work():
        try:
            with tenure.scope(cap=1000):
                for _ in range(20):
                    kept.append(torch.ones(100))
        except tenure.CapExceeded as error:
            caught.append(error)

    kept = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(caught) == 1
    assert len(kept) < 20


@natively
def test_the_error_of_a_scope_waits_for_code_that_is_in_it():
    torch = pytest.importorskip("torch")

    def inside():
        with tenure.scope(cap=100):
            kept = [torch.ones(20)]
            yield kept
            kept.append(torch.ones(20))
            kept.append(torch.ones(20))
            yield kept

    running = inside()
    next(running)
    assert float(torch.ones(1000).sum()) == 1000  # the consumer is in no scope
    with pytest.raises(tenure.CapExceeded):
        next(running)


@natively
def test_an_error_of_the_comparison_itself_does_not_reach_the_program(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    from tenure.lifetime.budget import Budget

    def fail(self):
        raise ValueError("of the comparison")

    monkeypatch.setattr(Budget, "is_over", fail)
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    with tenure.scope(cap=1000):
        x = torch.ones(3)
        assert float(x.sum()) == 3
    assert seen
    assert all(isinstance(one.exc_value, ValueError) for one in seen)
