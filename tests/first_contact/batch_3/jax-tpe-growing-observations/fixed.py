import os

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def parzen_ratio(points, is_good, is_bad, candidates, bandwidth=0.15):
    sq = jnp.sum((candidates[:, None] - points[None]) ** 2, axis=-1)

    def log_density(members):
        return jax.nn.logsumexp(-0.5 * sq / bandwidth**2, b=members, axis=1) - jnp.log(members.sum())

    return log_density(is_good) - log_density(is_bad)


def objective(x):
    return float(np.sum((x - 0.3) ** 2) + 0.1 * np.sin(12 * x).sum())


class Tuner:
    def __init__(self, dim, seed=0):
        self.rng = np.random.default_rng(seed)
        self.dim = dim
        self.x = self.rng.uniform(size=(6, dim)).astype("float32")
        self.y = np.array([objective(x) for x in self.x], "float32")

    def suggest(self):
        candidates = self.rng.uniform(size=(256, self.dim)).astype("float32")
        order = np.argsort(self.y)
        n_good = max(2, len(order) // 4)
        capacity = 64 * -(-len(order) // 64)
        points = np.zeros((capacity, self.dim), "float32")
        points[: len(order)] = self.x[order]
        rank = np.arange(capacity)
        is_good = (rank < n_good).astype("float32")
        is_bad = ((rank >= n_good) & (rank < len(order))).astype("float32")
        scores = parzen_ratio(points, is_good, is_bad, candidates)
        return candidates[int(jnp.argmax(scores))]

    def observe(self, x, value):
        self.x = np.concatenate([self.x, x[None]])
        self.y = np.append(self.y, np.float32(value))


tuner = Tuner(dim=2)
for trial in range(int(os.environ.get("STEPS", "40"))):
    x = tuner.suggest()
    tuner.observe(x, objective(x))
print("best", tuner.y.min(), "at", tuner.x[tuner.y.argmin()])
