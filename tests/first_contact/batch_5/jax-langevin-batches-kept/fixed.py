import os
from functools import partial

import jax
import jax.numpy as jnp

STEPS = int(os.environ.get("STEPS", "40"))


def log_density(x):
    return -0.25 * jnp.sum((x**2 - 1.0) ** 2) - 0.05 * jnp.sum(x)


@partial(jax.jit, static_argnames="length")
def run_batch(positions, key, length, step_size=0.02):
    drift = jax.vmap(jax.grad(log_density))

    def langevin(x, key):
        x = x + step_size * drift(x) + jnp.sqrt(2 * step_size) * jax.random.normal(key, x.shape)
        return x, x

    return jax.lax.scan(langevin, positions, jax.random.split(key, length))


class Sampler:
    def __init__(self, chains, dim, seed=0):
        self.key, sub = jax.random.split(jax.random.key(seed))
        self.positions = jax.random.normal(sub, (chains, dim))

    def run(self, length):
        self.key, sub = jax.random.split(self.key)
        self.positions, samples = run_batch(self.positions, sub, length)
        return samples.mean()


def main():
    sampler = Sampler(chains=16, dim=8)
    running = 0.0
    for n in range(STEPS):
        running += (float(sampler.run(length=50)) - running) / (n + 1)
    print(f"mean after {STEPS} batches: {running:.4f}")


if __name__ == "__main__":
    main()
