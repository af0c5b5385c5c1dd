import os

import jax
import jax.numpy as jnp
import numpy as np

x = np.linspace(0, 1, 100)
y = 2 * x + 3 + 0.1 * np.random.default_rng(0).normal(size=100)


def predict(params, x):
    return params["w"] * x + params["b"]


def mse(params, x, y):
    residual = jnp.power(predict(params, x) - y, 2)
    return jnp.mean(residual)


params = {"w": 0.0, "b": 0.0}
learning_rate = 0.2
print("loss before", mse(params, x, y))
for step in range(int(os.environ.get("STEPS", "40"))):
    grads = jax.grad(mse)(params, x, y)
    params = {name: value - learning_rate * grads[name] for name, value in params.items()}
print("loss after", mse(params, x, y), {name: float(value) for name, value in params.items()})
