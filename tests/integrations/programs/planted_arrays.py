"""The same in JAX and in TensorFlow."""

import jax
import jax.numpy as jnp
import pytest
import tensorflow as tf

KEPT = []
STEP = jax.jit(lambda x: (x * 2).sum(axis=0))


class Logger:
    seen = []


@tf.function
def step(x):
    return tf.reduce_sum(x * 2, axis=0)


@pytest.fixture(scope="session")
def arrays():
    return {"jax": jnp.ones((100, 100)), "tensorflow": tf.Variable(tf.ones((100, 100)))}


def test_clean_jax(arrays):
    assert STEP(arrays["jax"]).shape == (100,)


def test_clean_tensorflow(arrays):
    assert step(arrays["tensorflow"]).shape == (100,)


def test_leak_jax(arrays):
    for _ in range(3):
        KEPT.append(STEP(arrays["jax"]))


def test_leak_tensorflow(arrays):
    for _ in range(3):
        Logger.seen.append(step(arrays["tensorflow"]) + 1)


@pytest.mark.tenure(max_peak="1 KiB")
def test_peak_jax(arrays):
    assert (jnp.ones(1000) + 1).sum() == 2000


@pytest.mark.tenure(max_peak="1 KiB")
def test_peak_tensorflow(arrays):
    assert tf.reduce_sum(tf.ones(1000) + 1) == 2000
