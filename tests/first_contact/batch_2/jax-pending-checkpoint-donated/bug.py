import collections
import functools
import os
import pickle
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax


class CheckpointManager:
    """Collects save requests and writes them in batches, so that training does not wait for the disk."""

    def __init__(self, directory, every, max_pending=2):
        self.directory = directory
        self.every = every
        self.max_pending = max_pending
        self._pending = collections.deque()
        self.saved = []

    def maybe_save(self, step, state):
        if step % self.every == 0:
            self._pending.append((step, state))
        if len(self._pending) >= self.max_pending:
            self.flush()

    def flush(self):
        while self._pending:
            step, state = self._pending.popleft()
            path = os.path.join(self.directory, f"ckpt_{step:05d}.pkl")
            with open(path, "wb") as f:
                pickle.dump(jax.tree.map(np.asarray, state), f)
            self.saved.append(path)


optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))


def loss_fn(params, x, y):
    h = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean(jnp.square(h @ params["w2"] - y))


@functools.partial(jax.jit, donate_argnums=(0,))
def train_step(state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], x, y)
    updates, opt_state = optimizer.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    return {"params": params, "opt": opt_state}, loss


def main(directory):
    k1, k2, kx = jax.random.split(jax.random.key(0), 3)
    params = {"w1": 0.3 * jax.random.normal(k1, (4, 64)), "b1": jnp.zeros(64), "w2": 0.3 * jax.random.normal(k2, (64, 1))}
    state = {"params": params, "opt": optimizer.init(params)}
    manager = CheckpointManager(directory, every=2)
    x = jax.random.normal(kx, (128, 4))
    y = jnp.prod(x, axis=1, keepdims=True)
    for step in range(int(os.environ.get("STEPS", "40"))):
        state, loss = train_step(state, x, y)
        manager.maybe_save(step, state)
    manager.flush()
    print("loss", round(float(loss), 4), "checkpoints", len(manager.saved))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
