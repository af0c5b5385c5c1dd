import functools
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class ScheduleFreeState(NamedTuple):
    z: Any
    weight_sum: jax.Array
    count: jax.Array


class ScheduleFreeSGD:
    def __init__(self, learning_rate=0.2, b1=0.9, warmup=5):
        self.lr = learning_rate
        self.b1 = b1
        self.warmup = warmup

    def init(self, params):
        return ScheduleFreeState(z=params, weight_sum=jnp.zeros([]), count=jnp.zeros([], jnp.int32))

    def update(self, grads, state, params):
        count = state.count + 1
        lr = self.lr * jnp.minimum(1.0, count / self.warmup)
        weight_sum = state.weight_sum + lr**2
        ck = lr**2 / weight_sum
        z = jax.tree.map(lambda z, g: z - lr * g, state.z, grads)
        x = jax.tree.map(lambda y, zi: (y - (1 - self.b1) * zi) / self.b1, params, state.z)
        x = jax.tree.map(lambda xi, zi: (1 - ck) * xi + ck * zi, x, z)
        y = jax.tree.map(lambda xi, zi: self.b1 * xi + (1 - self.b1) * zi, x, z)
        return y, ScheduleFreeState(z, weight_sum, count)


opt = ScheduleFreeSGD()


def loss_fn(params, x, y):
    h = jax.nn.relu(x @ params["w1"] + params["b1"])
    return jnp.mean(jnp.square(h @ params["w2"] - y))


@functools.partial(jax.jit, donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    params, opt_state = opt.update(grads, opt_state, params)
    return params, opt_state, loss


def run(steps):
    k1, k2, kx = jax.random.split(jax.random.PRNGKey(0), 3)
    params = {"w1": jax.random.normal(k1, (6, 64)) * 0.3, "b1": jnp.zeros(64), "w2": jax.random.normal(k2, (64, 1)) * 0.1}
    opt_state = opt.init(params)
    x = jax.random.normal(kx, (256, 6))
    y = jnp.sin(x).sum(axis=1, keepdims=True)
    for step in range(steps):
        params, opt_state, loss = train_step(params, opt_state, x, y)
    return loss


if __name__ == "__main__":
    print("final loss", run(int(os.environ.get("STEPS", 40))))
