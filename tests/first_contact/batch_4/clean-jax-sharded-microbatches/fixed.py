import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import contextlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
replicated, by_rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
tx = optax.MultiSteps(optax.adamw(1e-3), every_k_schedule=2)


class DenoisingMLP:
    def __init__(self, dim=2, hidden=64):
        self.dim, self.hidden = dim, hidden
        self.frequencies = None

    def init(self, key):
        k1, k2 = jax.random.split(key)
        self.frequencies = np.exp(np.linspace(0, 4, 8)).astype(np.float32)
        return {"in": 0.3 * jax.random.normal(k1, (self.dim + 16, self.hidden)), "out": 0.1 * jax.random.normal(k2, (self.hidden, self.dim))}

    def __call__(self, params, x, t):
        angles = t[:, None] * self.frequencies
        h = jnp.concatenate((x, jnp.sin(angles), jnp.cos(angles)), -1)
        return jax.nn.silu(h @ params["in"]) @ params["out"]


def make_train_step(model):
    def loss_fn(params, key, x):
        k1, k2 = jax.random.split(key)
        t, noise = jax.random.uniform(k1, x.shape[:1]), jax.random.normal(k2, x.shape)
        noisy = jnp.sqrt(1 - t)[:, None] * x + jnp.sqrt(t)[:, None] * noise
        return jnp.mean((model(params, noisy, t) - noise) ** 2)

    def step(params, opt_state, key, x):
        loss, grads = jax.value_and_grad(loss_fn)(params, key, x)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return jax.jit(step, donate_argnums=(0, 1), out_shardings=(replicated, replicated, replicated))


@contextlib.contextmanager
def timed(log):
    start = time.perf_counter()
    yield log
    log["seconds"] = log.get("seconds", 0.0) + time.perf_counter() - start


def checkpoints(every):
    kept = None
    while True:
        step, params = yield kept
        if step % every == 0:
            kept = (step, jax.device_get(params))


def main():
    model = DenoisingMLP()
    params = jax.device_put(model.init(jax.random.key(0)), replicated)
    opt_state = jax.device_put(tx.init(params), replicated)
    train_step, log, pending = make_train_step(model), {}, []
    keeper = checkpoints(every=8)
    next(keeper)
    rng = np.random.default_rng(0)
    for step in range(int(os.environ.get("STEPS", "40"))):
        angle = rng.uniform(0, 2 * np.pi, 128)
        x = jax.device_put(np.stack((np.cos(angle), np.sin(angle)), -1).astype(np.float32), by_rows)
        with timed(log):
            params, opt_state, loss = train_step(params, opt_state, jax.random.key(step), x)
        pending.append(loss)
        saved = keeper.send((step, params))
        if len(pending) == 10:
            log["loss"] = float(jnp.stack(pending).mean())
            pending.clear()
    norm = np.sqrt(sum((leaf**2).sum() for leaf in saved[1].values()))
    print("loss", round(log.get("loss", 0.0), 3), "saved", saved[0], "norm", round(float(norm), 2))


if __name__ == "__main__":
    main()
