"""Keras on JAX keeps the value of each variable in an array: scopes leave variables' arrays alone, as in other backends."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc, weakref
import keras, numpy, tenure

x, y = numpy.ones((4, 2), "float32"), numpy.ones((4, 1), "float32")
for _ in range(2):  # the generator of all random numbers is a variable, made when first needed
    with tenure.scope():
        print("random", keras.random.uniform((1,)).shape)
with tenure.scope():
    model = keras.Sequential([keras.layers.Dense(1), keras.layers.BatchNormalization()])
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(x, y, verbose=0)
with tenure.scope():
    model.fit(x, y, verbose=0)
    loss = keras.ops.mean(model(x))
    variable = keras.Variable(loss + 1)
print("weights", [weight.shape for weight in model.weights if numpy.isfinite(weight.numpy()).all()])
print("variable", variable.numpy().shape)
print("born", loss)
with tenure.scope():
    given = keras.ops.ones((3,))
    variable = keras.Variable(keras.ops.zeros((3,)))
    variable.assign(given)
    other = [variable.value + 1]
print("assigned", variable.numpy())
print("listed", other[0])
gone = weakref.ref(variable)
del variable
gc.collect()
print("kept alive", gone() is not None)
"""


@pytest.fixture(scope="module")
def lines():
    env = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def test_variables_made_in_a_scope_outlive_it(lines):
    assert lines[:2] == ["random (1,)"] * 2
    assert lines[2] == "weights [(2, 1), (1,), (1,), (1,), (1,), (1,)]"
    assert lines[3] == "variable ()"
    assert lines[5] == "assigned [1. 1. 1.]"


def test_what_no_variable_holds_is_ended(lines):
    assert lines[4].startswith("born <released jax array")
    assert "ended" in lines[6] or "released" in lines[6]


def test_variables_are_not_kept_alive(lines):
    assert lines[7] == "kept alive False"
