import collections
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax

TRACES = collections.defaultdict(list)


def traced(fn):
    def wrapper(params, *arrays):
        TRACES[fn.__name__].append(tuple((a.shape, str(a.dtype)) for a in arrays))
        return fn(params, *arrays)

    return wrapper


class Net:
    def __init__(self, sizes):
        self.sizes = sizes
        self.last_batch_size = None

    def init(self, key):
        keys = jax.random.split(key, len(self.sizes) - 1)
        return [jax.random.normal(k, (m, n)) / np.sqrt(m) for k, m, n in zip(keys, self.sizes, self.sizes[1:])]

    def apply(self, params, x):
        self.last_batch_size = x.shape[0]
        for w in params[:-1]:
            x = jax.nn.relu(x @ w)
        return x @ params[-1]


net = Net([8, 32, 1])
optimizer = optax.sgd(0.05)


@jax.jit
@traced
def update(state, x, y):
    params, opt_state = state

    def loss_fn(params):
        residual = net.apply(params, x) - y
        return jnp.mean(residual**2), {"max_error": jnp.max(jnp.abs(residual))}

    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return (optax.apply_updates(params, updates), opt_state), dict(aux, loss=loss)


@jax.jit
@traced
def evaluate(state, x, y):
    return jnp.mean((net.apply(state[0], x) - y) ** 2)


def main():
    rng = np.random.default_rng(0)
    params = net.init(jax.random.key(0))
    state = (params, optimizer.init(params))
    for step in range(int(os.environ.get("STEPS", "40"))):
        x = rng.normal(size=(32 if step % 8 else 16, 8)).astype("float32")
        state, metrics = update(state, x, np.sin(x.sum(axis=1, keepdims=True)))
    x = rng.normal(size=(100, 8)).astype("float32")
    score = evaluate(state, x, np.sin(x.sum(axis=1, keepdims=True)))
    print("train", {k: float(v) for k, v in metrics.items()}, "eval", float(score))
    print("last traced batch", net.last_batch_size, {name: len(log) for name, log in TRACES.items()})


main()
