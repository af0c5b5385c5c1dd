import os
from functools import cached_property

import jax
import jax.numpy as jnp


class MultivariateNormal:
    def __init__(self, loc, covariance):
        self.loc = loc
        self.covariance = covariance

    @cached_property
    def scale_tril(self):
        return jnp.linalg.cholesky(self.covariance)

    def log_prob(self, value):
        white = jax.scipy.linalg.solve_triangular(self.scale_tril, value - self.loc, lower=True)
        log_det = jnp.log(jnp.diagonal(self.scale_tril)).sum()
        return -0.5 * jnp.sum(white**2) - log_det - 0.5 * len(self.loc) * jnp.log(2 * jnp.pi)

    def sample(self, key):
        return self.loc + self.scale_tril @ jax.random.normal(key, self.loc.shape)


def squared_exponential(grid, scale=0.3, jitter=1e-4):
    distances = (grid[:, None] - grid[None, :]) / scale
    return jnp.exp(-0.5 * distances**2) + jitter * jnp.eye(len(grid))


GRID = jnp.linspace(0.0, 1.0, 24)
PRIORS = {
    "trend": MultivariateNormal(jnp.zeros(24), squared_exponential(GRID)),
    "slope": MultivariateNormal(jnp.zeros(2), jnp.array([[1.0, 0.3], [0.3, 0.5]])),
}


def negative_log_joint(latent, observed, noise=0.1):
    mean = latent["trend"] + latent["slope"][0] + latent["slope"][1] * GRID
    log_prior = sum(PRIORS[name].log_prob(value) for name, value in latent.items())
    return 0.5 * jnp.sum((observed - mean) ** 2) / noise**2 - log_prior


@jax.jit
def map_step(latent, observed, step_size=1e-4):
    value, grads = jax.value_and_grad(negative_log_joint)(latent, observed)
    return jax.tree.map(lambda p, g: p - step_size * g, latent, grads), value


def prior_predictive(key):
    keys = jax.random.split(key, len(PRIORS))
    draws = {name: prior.sample(k) for (name, prior), k in zip(PRIORS.items(), keys)}
    return draws["trend"] + draws["slope"][0] + draws["slope"][1] * GRID


def main():
    observed = jnp.sin(6 * GRID) + GRID
    latent = {"trend": jnp.zeros(24), "slope": jnp.zeros(2)}
    for _ in range(int(os.environ.get("STEPS", "40"))):
        latent, value = map_step(latent, observed)
    print("negative log joint", round(float(value), 2))
    curve = prior_predictive(jax.random.key(0))
    print("prior predictive between", float(curve.min()), "and", float(curve.max()))


if __name__ == "__main__":
    main()
