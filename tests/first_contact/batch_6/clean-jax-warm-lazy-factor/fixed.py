import os
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, eq=False)
class Smoother:
    """A random walk observed with noise. The factor is computed once, before anything is traced."""

    length: int
    drift: float = 0.2

    def __post_init__(self):
        self.factor  # noqa: B018

    @cached_property
    def factor(self):
        steps = jnp.arange(1, self.length + 1)
        covariance = self.drift**2 * jnp.minimum(steps[:, None], steps[None, :])
        return jnp.linalg.cholesky(covariance + 1e-5 * jnp.eye(self.length))

    def path(self, white):
        return self.factor @ white


def nll(params, smoother, observed, mask):
    path = params["offset"] + smoother.path(params["white"])
    residual = jnp.where(mask, observed - path, 0.0)
    return 0.5 * jnp.sum(residual**2) / 0.05 + 0.5 * jnp.sum(params["white"] ** 2)


def make_gradient(smoother):
    return jax.jit(jax.grad(partial(nll, smoother=smoother)))


@partial(jax.jit, donate_argnums=0)
def add_gradients(total, gradients):
    return jax.tree.map(jnp.add, total, gradients)


@partial(jax.jit, donate_argnums=0)
def apply(params, total, count, rate=2e-3):
    return jax.tree.map(lambda p, g: p - rate * g / count, params, total)


@jax.jit
def smooth_by_scan(params, factor):
    """Running mean of the fitted path; the body closes over the parameters, inside of jit."""

    def body(carry, row):
        value = params["offset"] + row @ params["white"]
        carry = 0.7 * carry + 0.3 * value
        return carry, carry

    return jax.lax.scan(body, params["offset"], factor)[1]


def stations(rng, count, length):
    for _ in range(count):
        mask = rng.uniform(size=length) < 0.8
        yield np.cumsum(0.2 * rng.normal(size=length)).astype("float32"), mask


def main():
    rng = np.random.default_rng(0)
    smoother = Smoother(length=32)
    gradient = make_gradient(smoother)
    params = {"offset": jnp.zeros(()), "white": jnp.zeros(32)}
    before = jax.tree.map(np.array, params)
    for _ in range(int(os.environ.get("STEPS", "40"))):
        total = jax.tree.map(jnp.zeros_like, params)
        for observed, mask in stations(rng, 3, 32):
            total = add_gradients(total, gradient(params, observed=observed, mask=mask))
        params = apply(params, total, 3)
    moved = {name: float(np.abs(np.asarray(params[name]) - before[name]).max()) for name in params}
    print("moved", moved, "end of the path", round(float(smooth_by_scan(params, smoother.factor)[-1]), 4))


if __name__ == "__main__":
    main()
