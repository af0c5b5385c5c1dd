import os
from collections import OrderedDict, deque
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class State(NamedTuple):
    weights: jax.Array
    bias: jax.Array
    step: jax.Array


class Journal:
    """Numbers that the compiled step reports; the last ones are kept."""

    def __init__(self, length=16):
        self.losses = deque(maxlen=length)
        self.seen = 0

    def __call__(self, step, loss):
        self.losses.append((int(step), float(loss)))
        self.seen += 1


class FeatureStore:
    """A few devices' worth of raw blocks; what is evicted gives its memory back at once."""

    def __init__(self, load, capacity=3):
        self.load, self.capacity = load, capacity
        self.blocks = OrderedDict()

    def get(self, number):
        if number in self.blocks:
            self.blocks.move_to_end(number)
        else:
            if len(self.blocks) == self.capacity:
                _, evicted = self.blocks.popitem(last=False)
                evicted.delete()
            self.blocks[number] = jax.device_put(self.load(number))
        return self.blocks[number]


def raw_block(number, rows=64, features=10):
    return np.random.default_rng(number).normal(size=(rows, features)).astype("float32")


def make_step(journal, rate=0.1):
    def loss_fn(weights, bias, x):
        error = x @ weights + bias - jnp.tanh(x[:, 0] + x[:, 1])
        return jnp.mean(error**2)

    @partial(jax.jit, donate_argnums=0)
    def step(state, x):
        loss, (dw, db) = jax.value_and_grad(loss_fn, argnums=(0, 1))(state.weights, state.bias, x)
        jax.debug.callback(journal, state.step, loss)
        return State(state.weights - rate * dw, state.bias - rate * db, state.step + 1)

    return step


def snapshot(state):
    """A copy on the host, which a later donation does not touch."""
    return jax.tree.map(np.array, jax.device_get(state))


def main():
    journal, store = Journal(), FeatureStore(raw_block)
    step = make_step(journal)
    state = State(jnp.zeros(10), jnp.zeros(()), jnp.zeros((), jnp.int32))
    steps = int(os.environ.get("STEPS", "40"))
    half_way = snapshot(state)
    for number in range(steps):
        state = step(state, store.get(number % 5))
        if number == steps // 2:
            half_way = snapshot(state)
    jax.effects_barrier()
    distance = float(np.abs(np.asarray(state.weights) - half_way.weights).max())
    print("steps", journal.seen, "last loss", round(journal.losses[-1][1], 4), "moved since half-way", round(distance, 4))


if __name__ == "__main__":
    main()
