import functools
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class TrainState(NamedTuple):
    params: optax.LookaheadParams
    opt_state: Any
    key: jax.Array


class Discriminator:
    sizes = (2, 64, 64, 1)

    @classmethod
    def init(cls, key):
        layers = []
        for fan_in, fan_out in zip(cls.sizes[:-1], cls.sizes[1:]):
            key, sub = jax.random.split(key)
            layers.append({"w": jax.random.normal(sub, (fan_in, fan_out)) * (2 / fan_in) ** 0.5, "b": jnp.zeros(fan_out)})
        return layers

    @staticmethod
    def apply(layers, x):
        for layer in layers[:-1]:
            x = jax.nn.leaky_relu(x @ layer["w"] + layer["b"])
        return (x @ layers[-1]["w"] + layers[-1]["b"]).squeeze(-1)


optimizer = optax.lookahead(optax.adam(2e-3, b1=0.5), sync_period=6, slow_step_size=0.5)


def ring(key, n, modes=8):
    k1, k2 = jax.random.split(key)
    angle = jax.random.randint(k1, (n,), 0, modes) * 2 * jnp.pi / modes
    return jnp.stack((jnp.cos(angle), jnp.sin(angle)), -1) + 0.05 * jax.random.normal(k2, (n, 2))


def loss_fn(layers, real, fake):
    return jax.nn.softplus(-Discriminator.apply(layers, real)).mean() + jax.nn.softplus(Discriminator.apply(layers, fake)).mean()


def create_state(seed):
    key, sub = jax.random.split(jax.random.key(seed))
    fast = Discriminator.init(sub)
    params = optax.LookaheadParams(fast=fast, slow=jax.tree.map(jnp.copy, fast))
    return TrainState(params, optimizer.init(params), key)


@functools.partial(jax.jit, donate_argnames=("state",))
def train_step(state):
    key, k_real, k_fake = jax.random.split(state.key, 3)
    real, fake = ring(k_real, 128), jax.random.normal(k_fake, (128, 2))
    loss, grads = jax.value_and_grad(loss_fn)(state.params.fast, real, fake)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    return TrainState(optax.apply_updates(state.params, updates), opt_state, key), loss


if __name__ == "__main__":
    state = create_state(0)
    for step in range(int(os.environ.get("STEPS", "40"))):
        state, loss = train_step(state)
    gap = optax.global_norm(jax.tree.map(jnp.subtract, state.params.fast, state.params.slow))
    print("d loss", round(float(loss), 3), "fast - slow", round(float(gap), 3))
