"""A JAX and optax loop that keeps the gradients of every step. Three caches fill up and stop."""

import functools

import jax
import jax.numpy as jnp
import optax

optimizer = optax.adam(1e-2)
params = {"w": jax.random.normal(jax.random.key(0), (64, 64)), "b": jnp.zeros(64)}
state = optimizer.init(params)
tables, first, history = {}, [], []


@jax.jit
def gradients(params, x):
    return jax.value_and_grad(lambda p: jnp.mean((x @ p["w"] + p["b"] - x) ** 2))(params)


@jax.jit
def update(params, state, grads):
    changes, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, changes), state


@functools.cache
def noise(bucket):
    return jax.random.normal(jax.random.key(bucket), (128, 64))


def table(bucket):
    if bucket not in tables:
        tables[bucket] = jnp.full((128, 64), 1.0 + bucket)
    return tables[bucket]


for step in range(60):
    x = noise(step % 10) * table(step % 12)
    loss, grads = gradients(params, x)
    params, state = update(params, state, grads)
    if len(first) < 12:
        first.append(x)
    history.append(grads)
print(len(history), float(loss))
