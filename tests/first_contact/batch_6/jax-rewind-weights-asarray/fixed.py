import os
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax


class TrainState(NamedTuple):
    params: dict
    opt_state: optax.OptState
    step: jax.Array


optimizer = optax.adam(3e-3)


def init_params(key, sizes=(8, 64, 64, 1)):
    keys = jax.random.split(key, len(sizes) - 1)
    return {
        f"dense_{i}": {"kernel": jax.random.normal(k, (n, m)) * (2 / n) ** 0.5, "bias": jnp.zeros(m)}
        for i, (k, n, m) in enumerate(zip(keys, sizes, sizes[1:]))
    }


def predict(params, masks, x):
    for i, (name, layer) in enumerate(sorted(params.items())):
        x = x @ (layer["kernel"] * masks[name]) + layer["bias"]
        x = x if i == len(params) - 1 else jax.nn.relu(x)
    return x[:, 0]


@partial(jax.jit, donate_argnames="state")
def train_step(state, masks, x, y):
    def mse(params):
        return jnp.mean((predict(params, masks, x) - y) ** 2)

    loss, grads = jax.value_and_grad(mse)(state.params)
    updates, opt_state = optimizer.update(grads, state.opt_state)
    return TrainState(optax.apply_updates(state.params, updates), opt_state, state.step + 1), loss


class LotteryTicket:
    """Prune by magnitude, put the weights back to where they were, and train again."""

    def __init__(self, key, keep=0.5):
        self.keep = keep
        params = init_params(key)
        self.initial = jax.tree.map(jnp.copy, params)
        self.masks = {name: jnp.ones_like(layer["kernel"]) for name, layer in params.items()}
        self.state = TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32))

    def train(self, batches):
        for x, y in batches:
            self.state, loss = train_step(self.state, self.masks, x, y)
        return float(loss)

    def prune_and_rewind(self):
        for name, layer in self.state.params.items():
            magnitude = jnp.abs(layer["kernel"] * self.masks[name])
            self.masks[name] = (magnitude > jnp.quantile(magnitude, 1 - self.keep)).astype(jnp.float32)
        params = jax.tree.map(jnp.copy, self.initial)
        self.state = TrainState(params, optimizer.init(params), jnp.zeros((), jnp.int32))


def batches(key, n):
    for k in jax.random.split(key, n):
        x = jax.random.normal(k, (64, 8))
        yield x, jnp.sin(x[:, 0]) * x[:, 1]


def main():
    key = jax.random.key(0)
    steps = int(os.environ.get("STEPS", "40"))
    ticket = LotteryTicket(key)
    dense = ticket.train(batches(jax.random.key(1), steps))
    ticket.prune_and_rewind()
    sparse = ticket.train(batches(jax.random.key(2), steps))
    print(f"dense {dense:.3f} sparse {sparse:.3f}")


if __name__ == "__main__":
    main()
