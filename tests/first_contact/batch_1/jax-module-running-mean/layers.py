import jax
import jax.numpy as jnp


class Module:
    def __repr__(self):
        return f"{type(self).__name__}({', '.join(vars(self))})"


class Dense(Module):
    def __init__(self, key, n_in, n_out):
        self.weights = {"w": jax.random.normal(key, (n_in, n_out)) / n_in**0.5, "b": jnp.zeros(n_out)}

    def apply(self, weights, x):
        return x @ weights["w"] + weights["b"]
