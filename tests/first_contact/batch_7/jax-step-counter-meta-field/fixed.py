import os
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["weights", "step"],
    meta_fields=["base_lr"],
)
@dataclass(frozen=True)
class TrainState:
    weights: dict
    step: jax.Array
    base_lr: float

    @classmethod
    def create(cls, weights, base_lr):
        return cls(weights, jnp.zeros((), jnp.int32), base_lr)

    def apply_gradients(self, grads):
        lr = self.base_lr / (1 + 0.01 * self.step)
        return replace(self, weights=jax.tree.map(lambda w, g: w - lr * g, self.weights, grads), step=self.step + 1)


def predict(weights, features):
    return features @ weights["coefficients"] + weights["base_load"]


@jax.jit
def train_step(state, x, y):
    loss, grads = jax.value_and_grad(lambda w: jnp.mean((predict(w, x) - y) ** 2))(state.weights)
    return state.apply_gradients(grads), loss


class HouseholdDemand:
    """Synthetic meter readings: temperature, hour and price explain the demand."""

    def __init__(self, seed=8):
        self.rng = np.random.default_rng(seed)

    def batches(self, count, size=64):
        for _ in range(count):
            temperature, hour, price = self.rng.uniform(-1, 1, size=(3, size)).astype(np.float32)
            features = np.stack([temperature, hour, price, temperature * price, np.sin(3 * hour)], axis=1)
            yield features, 1.5 + np.sin(3 * hour) - 0.5 * temperature * price


def main():
    weights = {"coefficients": 0.1 * jax.random.normal(jax.random.key(2), (5,)), "base_load": jnp.zeros(())}
    state = TrainState.create(weights, base_lr=0.2)
    history = []
    for x, y in HouseholdDemand().batches(int(os.environ.get("STEPS", "40"))):
        state, loss = train_step(state, x, y)
        history.append(float(loss))
    print(f"{int(state.step)} steps, loss {history[0]:.3f} -> {history[-1]:.3f}")


if __name__ == "__main__":
    main()
