import os
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp

STEPS = int(os.environ.get("STEPS", "40"))


class MCMCState(NamedTuple):
    position: jax.Array
    logdensity: jax.Array


def build_kernel(logdensity_fn: Callable, step_size: float):
    def init(position):
        return MCMCState(position, logdensity_fn(position))

    def step(key, state):
        key_move, key_accept = jax.random.split(key)
        proposal = state.position + step_size * jax.random.normal(key_move, state.position.shape)
        logdensity = logdensity_fn(proposal)
        accept = jnp.log(jax.random.uniform(key_accept)) < logdensity - state.logdensity
        new = MCMCState(proposal, logdensity)
        return jax.tree.map(lambda a, b: jnp.where(accept, a, b), new, state)

    return init, step


def inference_loop(key, kernel, state, num_samples):
    @jax.jit
    def one_step(state, key):
        state = kernel(key, state)
        return state, state.position

    keys = jax.random.split(key, num_samples)
    return jax.lax.scan(one_step, state, keys)


def expectation_maximisation(data, rounds):
    key = jax.random.key(11)
    mu = jnp.zeros(data.shape[1])
    position = jnp.zeros(data.shape[1])
    for _ in range(rounds):
        def logdensity(z):
            return -0.5 * jnp.sum((data - z) ** 2) / len(data) - 0.5 * jnp.sum((z - mu) ** 2)

        init, kernel = build_kernel(logdensity, step_size=0.3)
        key, sample_key = jax.random.split(key)
        state, samples = inference_loop(sample_key, kernel, init(position), 20)
        position = state.position
        mu = 0.5 * mu + 0.5 * samples.mean(0)
    return mu


data = 1.0 + 0.5 * jax.random.normal(jax.random.key(0), (400, 16))
print("mu", expectation_maximisation(data, STEPS)[:3])
