"""JAX's part of the other random programs."""

import jax
import jax.numpy as jnp
import numpy as np
from other_worlds import World


@jax.custom_vjp
def gated(x, y):
    return x * y


def _gated_there(x, y):
    return x * y, (x, y)


def _gated_back(kept, grad):
    x, y = kept
    return grad * y + 0 * x, grad * x


gated.defvjp(_gated_there, _gated_back)


@jax.jit
def jitted(x, y):
    return jnp.tanh(x @ y) + x


class Jax(World):
    kinds = (
        "fresh_one operate operate compiled graded custom vectored pulled pulled keyed scanned exported imported sliced "
        "closure call drop look checkpointed pytree "
        "owned broken"
    ).split()

    def __init__(self, seed, scoped):
        super().__init__(seed, scoped)
        self.key = jax.random.key(seed)
        self.weights = {"w": self.fresh(), "b": jnp.ones(4)}

    def array(self, value):
        return np.asarray(value)

    def fresh(self):
        self.tick()
        return jnp.asarray(np.random.default_rng(self.rng.randrange(1 << 30)).random((4, 4), dtype=np.float32))

    def fresh_one(self):
        return [self.fresh()]

    def some(self):
        value = jnp.asarray(self.rng.choice([*self.weights.values(), self.pick(), self.pick()]))
        return jnp.broadcast_to(value.reshape(-1)[:1], (4, 4)) if value.shape != (4, 4) else value

    def operate(self):
        return [
            self.leave(self.rng.choice([jnp.add, jnp.multiply, jnp.matmul, jnp.maximum])(self.some(), self.some()))
            * 0.25
        ]

    def compiled(self):
        return [jitted(self.leave(self.some() + 1), self.some())]

    def graded(self):
        return [jax.grad(lambda x, y: jitted(x, y).sum())(self.some(), self.some())]

    def custom(self):
        return list(jax.grad(lambda x, y: gated(x, y).sum() ** 2, argnums=(0, 1))(self.some(), self.some()))

    def vectored(self):
        return [jax.vmap(lambda row, x: row @ x, in_axes=(0, None))(self.some(), self.some())]

    def pulled(self):
        there = self.leave(self.some() + 1)
        result, pull = jax.vjp(lambda x: jnp.sin(gated(x, there)), self.leave(self.some() * 2))
        return [result, lambda: list(pull(jnp.ones((4, 4))))]

    def checkpointed(self):
        factor = self.fresh()
        return [jax.grad(lambda x: jax.checkpoint(lambda a: jnp.sin(a * factor))(x).sum())(self.some())]

    def keyed(self):
        self.key, one = jax.random.split(jax.random.fold_in(jax.random.key(3), self.rng.randrange(99)))
        made = jax.random.normal(one, (4, 4))
        self.key = jax.random.key(1)
        return [made]

    def scanned(self):
        last, every = jax.lax.scan(lambda carry, row: (carry + row, carry * row), jnp.zeros(4), self.some())
        return [last, every]

    def exported(self):
        return [np.asarray(self.leave(self.some() + 1))]

    def imported(self):
        return [jnp.from_dlpack(np.ascontiguousarray(np.asarray(self.some()) * 2))]

    def sliced(self):
        x = self.some()
        return [x[self.rng.randrange(4)], x.T, x.reshape(-1)][: self.rng.randrange(1, 4)]

    def closure(self):
        inside = {"a": [self.fresh()]}
        return [lambda: [inside["a"][0] * 2]]

    def pytree(self):
        grads = jax.grad(lambda w, x: (x @ w["w"] + w["b"]).sum())(self.weights, self.some())
        for name in sorted(grads):
            self.number(grads[name])

    def owned(self):
        x = self.leave(self.hold(self.some() * 2))
        return [x * x, x + self.some()]

    def broken(self):
        return [self.leave(self.some() + 1) @ self.some().reshape(-1)]


WORLD = Jax
