import os

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class BacktrackingDescent:
    """Gradient descent with an Armijo line search."""

    def __init__(self, fun, shrink=0.5, c1=1e-4, max_halvings=30):
        self.fun = fun
        self.grad = jax.grad(fun)
        self.shrink = shrink
        self.c1 = c1
        self.max_halvings = max_halvings
        self.accepted_step = None
        self.step_sizes = []

    def _search(self, x, direction, slope):
        f0 = self.fun(x)

        def too_long(carry):
            alpha, f, n = carry
            return (f > f0 + self.c1 * alpha * slope) & (n < self.max_halvings)

        def halve(carry):
            alpha, _, n = carry
            alpha = alpha * self.shrink
            self.accepted_step = alpha
            return alpha, self.fun(x + alpha * direction), n + 1

        first = jnp.float32(1.0)
        alpha, value, _ = lax.while_loop(too_long, halve, (first, self.fun(x + direction), 0))
        return x + alpha * direction, value

    def minimize(self, x, steps):
        for _ in range(steps):
            g = self.grad(x)
            x, value = self._search(x, -g, -jnp.vdot(g, g))
            self.step_sizes.append(np.float32(self.accepted_step))
        return x, value


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def main():
    solver = BacktrackingDescent(rosenbrock)
    x, value = solver.minimize(jnp.array([-1.2, 1.0, 0.8]), int(os.environ.get("STEPS", "40")))
    print("value", value, "x", x, "median step", np.median(solver.step_sizes))


main()
