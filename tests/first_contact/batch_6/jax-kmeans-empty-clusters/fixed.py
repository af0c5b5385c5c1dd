import os
from functools import partial

import jax
import jax.numpy as jnp


def squared_distances(points, centroids):
    return jnp.sum((points[:, None] - centroids[None]) ** 2, axis=-1)


@jax.jit
def assign(points, centroids):
    return jnp.argmin(squared_distances(points, centroids), axis=1)


@partial(jax.jit, static_argnames="n_clusters")
def update_centroids(points, labels, centroids, n_clusters):
    for j in range(n_clusters):
        member = (labels == j)[:, None]
        mean = jnp.where(member, points, 0).sum(axis=0) / jnp.maximum(member.sum(), 1)
        centroids = centroids.at[j].set(jnp.where(member.any(), mean, centroids[j]))
    return centroids


class KMeans:
    def __init__(self, n_clusters, tol=1e-5, seed=0):
        self.n_clusters = n_clusters
        self.tol = tol
        self.key = jax.random.key(seed)

    def fit(self, points, max_iter):
        start = jax.random.choice(self.key, len(points), (self.n_clusters,), replace=False)
        centroids = points[start]
        for _ in range(max_iter):
            labels = assign(points, centroids)
            moved = update_centroids(points, labels, centroids, self.n_clusters)
            shift = float(jnp.abs(moved - centroids).max())
            centroids = moved
            if shift < self.tol:
                break
        self.centroids = centroids
        self.inertia = float(squared_distances(points, centroids).min(axis=1).sum())
        return self


def blobs(key, n=300, clusters=4):
    key_centre, key_noise = jax.random.split(key)
    centres = 5 * jax.random.normal(key_centre, (clusters, 2))
    return centres[jnp.arange(n) % clusters] + 0.3 * jax.random.normal(key_noise, (n, 2))


if __name__ == "__main__":
    model = KMeans(n_clusters=4).fit(blobs(jax.random.key(1)), int(os.environ.get("STEPS", "40")))
    print("inertia", round(model.inertia, 2), "centroids", model.centroids.round(1).tolist())
