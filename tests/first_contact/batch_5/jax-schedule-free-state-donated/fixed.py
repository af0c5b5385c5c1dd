import os
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclass
class TrainState:
    params: dict
    z: dict
    momentum: dict
    count: jax.Array


def init_params(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return {
        f"layer_{i}": {"w": jax.random.normal(k, (n, m)) / n**0.5, "b": jnp.zeros(m)}
        for i, (k, n, m) in enumerate(zip(keys, sizes[:-1], sizes[1:]))
    }


def init_state(key, sizes):
    params = init_params(key, sizes)
    return TrainState(
        params=params,
        z=jax.tree.map(jnp.copy, params),
        momentum=jax.tree.map(jnp.zeros_like, params),
        count=jnp.zeros((), jnp.int32),
    )


def forward(params, x):
    for name in sorted(params)[:-1]:
        x = jax.nn.gelu(x @ params[name]["w"] + params[name]["b"])
    last = params[sorted(params)[-1]]
    return x @ last["w"] + last["b"]


@partial(jax.jit, donate_argnums=0)
def train_step(state, x, y, lr=0.05, beta=0.9):
    def loss_fn(params):
        return jnp.mean((forward(params, x) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    momentum = jax.tree.map(lambda m, g: beta * m + (1 - beta) * g, state.momentum, grads)
    z = jax.tree.map(lambda z, m: z - lr * m, state.z, momentum)
    weight = 1.0 / (state.count + 1)
    params = jax.tree.map(lambda p, z: (1 - weight) * p + weight * z, state.params, z)
    return TrainState(params, z, momentum, state.count + 1), loss


def main():
    key = jax.random.key(0)
    state = init_state(key, [6, 32, 1])
    for step in range(int(os.environ.get("STEPS", "40"))):
        x = jax.random.normal(jax.random.fold_in(key, step), (64, 6))
        state, loss = train_step(state, x, jnp.sin(x[:, :1]))
    print("loss", float(loss))


if __name__ == "__main__":
    main()
