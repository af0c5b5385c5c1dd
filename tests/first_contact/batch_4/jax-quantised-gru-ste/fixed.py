import os

import jax
import jax.numpy as jnp
import optax


class Quantizer:
    """Rounds to a grid; the gradient goes straight through where the input is inside of the range."""

    def __init__(self, bits, limit=1.0):
        self.scale = (2 ** (bits - 1) - 1) / limit
        self.limit = limit
        self.apply = jax.custom_vjp(self.primal)
        self.apply.defvjp(self.forward, self.backward)

    def primal(self, x):
        return jnp.round(jnp.clip(x, -self.limit, self.limit) * self.scale) / self.scale

    def forward(self, x):
        return self.primal(x), jnp.abs(x) <= self.limit

    def backward(self, inside, g):
        return (jnp.where(inside, g, 0.0),)

    def __call__(self, x):
        return self.apply(x)


class GRU:
    def __init__(self, inputs, hidden, bits=4):
        self.inputs, self.hidden = inputs, hidden
        self.quantize = Quantizer(bits)

    def init(self, key):
        k1, k2, k3 = jax.random.split(key, 3)
        scale = self.hidden**-0.5
        return {
            "x": scale * jax.random.normal(k1, (self.inputs, 3 * self.hidden)),
            "h": scale * jax.random.normal(k2, (self.hidden, 3 * self.hidden)),
            "out": scale * jax.random.normal(k3, (self.hidden, 1)),
        }

    def cell(self, params, h, x):
        zx, rx, nx = jnp.split(x @ params["x"], 3, -1)
        zh, rh, nh = jnp.split(h @ params["h"], 3, -1)
        z, r = jax.nn.sigmoid(zx + zh), jax.nn.sigmoid(rx + rh)
        return self.quantize((1 - z) * jnp.tanh(nx + r * nh) + z * h)

    def __call__(self, params, xs):
        def body(h, x):
            return self.cell(params, h, x), None

        h, _ = jax.lax.scan(body, jnp.zeros((xs.shape[1], self.hidden)), xs)
        return (h @ params["out"]).squeeze(-1)


def sequences(key, steps=20, batch=32):
    x = jax.random.bernoulli(key, 0.5, (steps, batch, 1)).astype(jnp.float32)
    return x, x.mean((0, 2)) - 0.5


def main():
    model = GRU(1, 24)
    optimizer = optax.adam(5e-3)
    key = jax.random.key(0)
    params = model.init(key)
    opt_state = optimizer.init(params)

    @jax.jit
    def update(params, opt_state, xs, ys):
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((model(p, xs) - ys) ** 2))(params)
        updates, opt_state = optimizer.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, loss

    for step in range(int(os.environ.get("STEPS", "40"))):
        params, opt_state, loss = update(params, opt_state, *sequences(jax.random.fold_in(key, step)))
    print("mse", round(float(loss), 4))


if __name__ == "__main__":
    main()
