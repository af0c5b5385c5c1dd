import os
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp

STEPS = int(os.environ.get("STEPS", "40"))


class MCMCState(NamedTuple):
    position: jax.Array
    logdensity: jax.Array


def build_kernel(logdensity_fn: Callable, step_size: float):
    def init(position, *args):
        return MCMCState(position, logdensity_fn(position, *args))

    def step(key, state, *args):
        key_move, key_accept = jax.random.split(key)
        proposal = state.position + step_size * jax.random.normal(key_move, state.position.shape)
        logdensity = logdensity_fn(proposal, *args)
        accept = jnp.log(jax.random.uniform(key_accept)) < logdensity - state.logdensity
        new = MCMCState(proposal, logdensity)
        return jax.tree.map(lambda a, b: jnp.where(accept, a, b), new, state)

    return init, step


def build_loop(kernel, num_samples):
    @jax.jit
    def inference_loop(key, state, *args):
        def one_step(state, key):
            state = kernel(key, state, *args)
            return state, state.position

        return jax.lax.scan(one_step, state, jax.random.split(key, num_samples))

    return inference_loop


def logdensity(z, data, mu):
    return -0.5 * jnp.sum((data - z) ** 2) / len(data) - 0.5 * jnp.sum((z - mu) ** 2)


def expectation_maximisation(data, rounds):
    key = jax.random.key(11)
    mu = jnp.zeros(data.shape[1])
    position = jnp.zeros(data.shape[1])
    init, kernel = build_kernel(logdensity, step_size=0.3)
    inference_loop = build_loop(kernel, 20)
    for _ in range(rounds):
        key, sample_key = jax.random.split(key)
        state, samples = inference_loop(sample_key, init(position, data, mu), data, mu)
        position = state.position
        mu = 0.5 * mu + 0.5 * samples.mean(0)
    return mu


data = 1.0 + 0.5 * jax.random.normal(jax.random.key(0), (400, 16))
print("mu", expectation_maximisation(data, STEPS)[:3])
