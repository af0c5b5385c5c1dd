import os
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@partial(jax.tree_util.register_dataclass, data_fields=["weight", "bias"], meta_fields=[])
@dataclass
class Linear:
    weight: jax.Array
    bias: jax.Array

    @classmethod
    def create(cls, key, n_in, n_out):
        return cls(jax.random.normal(key, (n_in, n_out)) * (2 / n_in) ** 0.5, jnp.zeros(n_out))

    def __call__(self, x):
        return x @ self.weight + self.bias


@dataclass
class Recorder:
    """Keeps the last output of the layers that it watches."""

    outputs: dict = field(default_factory=dict)

    def save(self, name, value):
        self.outputs[name] = value
        return value

    def dead_units(self):
        return {name: int(jnp.sum(jnp.all(value <= 0, axis=0))) for name, value in self.outputs.items()}


class Network:
    def __init__(self, recorder, sizes=(10, 48, 48, 3)):
        self.recorder = recorder
        self.keys = jax.random.split(jax.random.key(6), len(sizes) - 1)
        self.sizes = sizes

    def init(self):
        return [Linear.create(k, a, b) for k, a, b in zip(self.keys, self.sizes, self.sizes[1:])]

    def apply(self, layers, x):
        for n, layer in enumerate(layers[:-1]):
            x = self.recorder.save(f"layer{n}", jax.nn.relu(layer(x)))
        return layers[-1](x)


def cross_entropy(layers, network, x, y):
    log_probs = jax.nn.log_softmax(network.apply(layers, x))
    return -jnp.mean(jnp.take_along_axis(log_probs, y[:, None], axis=1))


def sgd(layers, grads, lr):
    return jax.tree.map(lambda p, g: p - lr * g, layers, grads)


def blobs(steps, batch_size=64):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 10)).astype(np.float32)
    for _ in range(steps):
        y = rng.integers(0, 3, batch_size)
        yield centres[y] + 0.5 * rng.normal(size=(batch_size, 10)).astype(np.float32), y


def main(steps, report_every=4):
    recorder = Recorder()
    network = Network(recorder)
    layers = network.init()
    grad_fn = jax.value_and_grad(cross_entropy)
    for step, (x, y) in enumerate(blobs(steps), start=1):
        loss, grads = grad_fn(layers, network, x, y)
        layers = sgd(layers, grads, lr=0.1)
        if step % report_every == 0:
            print(f"step {step}: loss {float(loss):.3f}, dead units {recorder.dead_units()}")


if __name__ == "__main__":
    main(int(os.environ.get("STEPS", "40")))
