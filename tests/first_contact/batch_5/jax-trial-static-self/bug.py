import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


class Trial:
    """One setting of a random search: a ridge regression on random features."""

    def __init__(self, seed, scale, penalty, features=2048):
        k1, k2 = jax.random.split(jax.random.key(seed))
        self.omega = jax.random.normal(k1, (4, features)) * scale
        self.params = {"w": jnp.zeros(features), "b": 0.01 * jax.random.normal(k2, ())}
        self.penalty = penalty

    @partial(jax.jit, static_argnums=0)
    def step(self, params, x, y):
        def loss_fn(p):
            phi = jnp.cos(x @ self.omega) * (2.0 / self.omega.shape[1]) ** 0.5
            return jnp.mean((phi @ p["w"] + p["b"] - y) ** 2) + self.penalty * jnp.sum(p["w"] ** 2)

        loss, grads = jax.value_and_grad(loss_fn)(params)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), loss

    def fit(self, x, y, epochs=5):
        for _ in range(epochs):
            self.params, loss = self.step(self.params, x, y)
        return float(loss)


def search(n_trials):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(256, 4)).astype("float32")
    y = np.tanh(x[:, 0] * x[:, 1]).astype("float32")
    best = (np.inf, None)
    for seed in range(n_trials):
        scale, penalty = rng.uniform(0.1, 3.0), 10 ** rng.uniform(-6, -2)
        trial = Trial(seed, scale, penalty)
        best = min(best, (trial.fit(x, y), (scale, penalty)))
    return best


if __name__ == "__main__":
    loss, (scale, penalty) = search(int(os.environ.get("STEPS", "40")))
    print(f"loss {loss:.4f} at scale {scale:.2f}, penalty {penalty:.1e}")
