import os

import jax
import jax.numpy as jnp

STEPS = int(os.environ.get("STEPS", "40"))
key = jax.random.PRNGKey(42)


def next_key():
    global key
    key, subkey = jax.random.split(key)
    return subkey


def init_params(sizes):
    params = []
    for n_in, n_out in zip(sizes, sizes[1:]):
        params.append({"w": jax.random.normal(next_key(), (n_in, n_out)) / n_in**0.5, "b": jnp.zeros(n_out)})
    return params


def dropout(x, rate, rng):
    keep = jax.random.bernoulli(rng, 1.0 - rate, x.shape)
    return jnp.where(keep, x / (1.0 - rate), 0.0)


def forward(params, x, rng, rate=0.1):
    for layer in params[:-1]:
        rng, _ = jax.random.split(rng)
        x = dropout(jax.nn.relu(x @ layer["w"] + layer["b"]), rate, rng)
    return x @ params[-1]["w"] + params[-1]["b"]


@jax.jit
def update(params, x, y, rng, lr=0.05):
    def loss_fn(p):
        return jnp.mean((forward(p, x, rng) - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


params = init_params([8, 32, 1])
for step in range(STEPS):
    x = jax.random.normal(next_key(), (64, 8))
    y = x.sum(1, keepdims=True)
    params, loss = update(params, x, y, next_key())
print("loss", float(loss))
