import os
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def pairwise_sq_dists(a, b):
    return jnp.sum(a**2, 1)[:, None] - 2 * a @ b.T + jnp.sum(b**2, 1)[None, :]


@partial(jax.jit, static_argnames="n_clusters")
def lloyd_step(points, centroids, n_clusters):
    labels = jnp.argmin(pairwise_sq_dists(points, centroids), axis=1)
    members = jax.nn.one_hot(labels, n_clusters)
    return members.T @ points / jnp.maximum(members.sum(0)[:, None], 1.0), labels


@dataclass
class KMeans:
    n_clusters: int = 4
    max_iter: int = 20
    tol: float = 1e-4
    seed: int = 0
    shifts: list = field(default_factory=list)

    def fit(self, points):
        rng = np.random.default_rng(self.seed)
        centroids = jnp.asarray(points[rng.choice(len(points), self.n_clusters, replace=False)])
        points = jnp.asarray(points)
        for _ in range(self.max_iter):
            new_centroids, labels = lloyd_step(points, centroids, self.n_clusters)
            self.shifts.append(float(jnp.abs(new_centroids - centroids).max()))
            centroids = new_centroids
            if self.shifts[-1] < self.tol:
                break
        self.centroids_ = np.asarray(centroids)
        self.labels_ = np.asarray(labels)
        return self

    @property
    def sizes(self):
        return np.bincount(self.labels_, minlength=self.n_clusters)


def customers(per_segment, segments=4, features=3):
    rng = np.random.default_rng(1)
    centres = rng.normal(scale=4.0, size=(segments, features))
    rows = [centre + rng.normal(size=(per_segment, features)) for centre in centres]
    return np.concatenate(rows).astype(np.float32)


def main():
    points = customers(per_segment=10 * int(os.environ.get("STEPS", "40")))
    model = KMeans(n_clusters=4).fit(points)
    print(f"{len(points)} customers in segments of {sorted(model.sizes.tolist())}")
    print(f"{len(model.shifts)} iterations, last shift {model.shifts[-1]:.5f}")


if __name__ == "__main__":
    main()
