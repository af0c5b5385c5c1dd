import os

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def parzen_ratio(good, bad, candidates, bandwidth=0.15):
    def log_density(points):
        sq = jnp.sum((candidates[:, None] - points[None]) ** 2, axis=-1)
        return jax.nn.logsumexp(-0.5 * sq / bandwidth**2, axis=1) - jnp.log(points.shape[0])

    return log_density(good) - log_density(bad)


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
        scores = parzen_ratio(self.x[order[:n_good]], self.x[order[n_good:]], candidates)
        return candidates[int(jnp.argmax(scores))]

    def observe(self, x, value):
        self.x = np.concatenate([self.x, x[None]])
        self.y = np.append(self.y, np.float32(value))


tuner = Tuner(dim=2)
for trial in range(int(os.environ.get("STEPS", "40"))):
    x = tuner.suggest()
    tuner.observe(x, objective(x))
print("best", tuner.y.min(), "at", tuner.x[tuner.y.argmin()])
