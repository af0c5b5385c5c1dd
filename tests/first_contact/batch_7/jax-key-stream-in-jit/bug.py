import os

import jax
import jax.numpy as jnp
import numpy as np
import optax


def key_stream(seed):
    """Endless random keys: `next(keys)`."""
    key = jax.random.key(seed)
    while True:
        key, subkey = jax.random.split(key)
        yield subkey


keys = key_stream(0)


class DenoisingAutoencoder:
    def __init__(self, features, hidden=24, noise=0.3):
        self.noise = noise
        self.params = {
            "enc": 0.1 * jax.random.normal(next(keys), (features, hidden)),
            "dec": 0.1 * jax.random.normal(next(keys), (hidden, features)),
            "bias": jnp.zeros(features),
        }

    @staticmethod
    def reconstruct(params, x):
        return jax.nn.relu(x @ params["enc"]) @ params["dec"] + params["bias"]

    def loss(self, params, x):
        noisy = x + self.noise * jax.random.normal(next(keys), x.shape)
        return jnp.mean((self.reconstruct(params, noisy) - x) ** 2)


def make_update(model, optimizer):
    @jax.jit
    def update(params, opt_state, x):
        loss, grads = jax.value_and_grad(model.loss)(params, x)
        updates, opt_state = optimizer.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, loss

    return update


def sensor_batches(steps, features=12, batch_size=32):
    rng = np.random.default_rng(4)
    mixing = rng.normal(size=(3, features)).astype(np.float32)
    for _ in range(steps):
        yield rng.normal(size=(batch_size, 3)).astype(np.float32) @ mixing


def robustness(model, x, trials=5):
    """Mean error on inputs with sensors that fail at random."""
    errors = []
    for _ in range(trials):
        working = jax.random.bernoulli(next(keys), 0.9, x.shape)
        errors.append(float(jnp.mean((model.reconstruct(model.params, x * working) - x) ** 2)))
    return sum(errors) / trials


if __name__ == "__main__":
    model = DenoisingAutoencoder(features=12)
    optimizer = optax.adam(3e-3)
    opt_state = optimizer.init(model.params)
    update = make_update(model, optimizer)
    for batch in sensor_batches(int(os.environ.get("STEPS", "40"))):
        model.params, opt_state, loss = update(model.params, opt_state, batch)
    print(f"last loss {float(loss):.3f}, with broken sensors {robustness(model, batch):.3f}")
