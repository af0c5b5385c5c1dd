"""Times the training step of a small mixer for several batch sizes."""

import os
import time
from contextlib import contextmanager
from functools import partial

import jax
import jax.numpy as jnp
import optax

optimizer = optax.adamw(1e-3)


def init_params(key, tokens=16, dim=32, layers=2):
    params = []
    for _ in range(layers):
        key, k1, k2 = jax.random.split(key, 3)
        params.append({
            "tokens": jax.random.normal(k1, (tokens, tokens)) / tokens**0.5,
            "channels": jax.random.normal(k2, (dim, dim)) / dim**0.5,
        })
    return params


def forward(params, x):
    for layer in params:
        x = x + jax.nn.gelu(jnp.einsum("btd,ts->bsd", x, layer["tokens"]))
        x = x + jax.nn.gelu(x @ layer["channels"])
    return x.mean((1, 2))


@partial(jax.jit, donate_argnames="state")
def train_step(state, x, y):
    params, opt_state = state
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return (optax.apply_updates(params, updates), opt_state), loss


@contextmanager
def timed(results, label):
    started = time.perf_counter()
    yield
    results[label] = time.perf_counter() - started


class Benchmark:
    def __init__(self, repeats):
        self.repeats = repeats
        self.results = {}

    def run(self, label, step, state, *batch):
        state, _ = jax.block_until_ready(step(state, *batch))  # compilation is not timed
        with timed(self.results, label):
            for _ in range(self.repeats):
                state, loss = step(state, *batch)
            jax.block_until_ready(loss)


def main():
    benchmark = Benchmark(int(os.environ.get("STEPS", "40")))
    for batch_size in (8, 32):
        key_x, key_y, key_p = jax.random.split(jax.random.key(batch_size), 3)
        params = init_params(key_p)
        x = jax.random.normal(key_x, (batch_size, 16, 32))
        y = jax.random.normal(key_y, (batch_size,))
        benchmark.run(f"batch {batch_size}", train_step, (params, optimizer.init(params)), x, y)
    for label, seconds in benchmark.results.items():
        print(label, "timed" if seconds > 0 else "too fast", f"for {benchmark.repeats} steps")


if __name__ == "__main__":
    main()
