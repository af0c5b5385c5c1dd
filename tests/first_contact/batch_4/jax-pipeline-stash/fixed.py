"""Two pipeline stages in one process, with one forward and one backward per micro-batch."""
import os
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import optax


def encoder(params, x):
    for w in params:
        x = jax.nn.relu(x @ w)
    return x


def decoder_loss(params, h, y):
    return jnp.mean((h @ params[0] - y) ** 2)


class Stage:
    def __init__(self, fn, params, optimizer):
        self.fn = fn
        self.params = params
        self.optimizer = optimizer
        self.opt_state = optimizer.init(params)
        self.grads = None
        self.stash = {}

    def forward(self, micro_batch, *inputs):
        output, pullback = jax.vjp(self.fn, self.params, *inputs)
        self.stash[micro_batch] = pullback
        return output

    def backward(self, micro_batch, cotangent):
        pullback = self.stash.pop(micro_batch)
        grads, *upstream = pullback(cotangent)
        self.grads = grads if self.grads is None else jax.tree.map(jnp.add, self.grads, grads)
        return upstream[0]

    def apply(self):
        updates, self.opt_state = self.optimizer.update(self.grads, self.opt_state)
        self.params = optax.apply_updates(self.params, updates)
        self.grads = None


class Pipeline:
    def __init__(self, stages, micro_batches=4):
        self.stages = stages
        self.micro_batches = micro_batches
        self.sent = 0

    def train_batch(self, x, y):
        first, last = self.stages
        in_flight, losses = deque(), []
        for xs, ys in zip(np.split(x, self.micro_batches), np.split(y, self.micro_batches)):
            in_flight.append((self.sent, first.forward(self.sent, xs), ys))
            self.sent += 1
            if len(in_flight) == 2:
                losses.append(self._finish(*in_flight.popleft()))
        while in_flight:
            losses.append(self._finish(*in_flight.popleft()))
        for stage in self.stages:
            stage.apply()
        return sum(losses) / len(losses)

    def _finish(self, number, h, ys):
        first, last = self.stages
        loss = last.forward(number, h, ys)
        first.backward(number, last.backward(number, jnp.ones_like(loss)))
        return float(loss)


def main():
    keys = jax.random.split(jax.random.key(0), 3)
    first = [0.15 * jax.random.normal(keys[0], (16, 128)), 0.1 * jax.random.normal(keys[1], (128, 128))]
    last = [0.1 * jax.random.normal(keys[2], (128, 1))]
    pipeline = Pipeline([Stage(encoder, first, optax.adam(1e-3)), Stage(decoder_loss, last, optax.adam(1e-3))])
    rng = np.random.default_rng(0)
    for _ in range(int(os.environ.get("STEPS", "40"))):
        x = rng.normal(size=(128, 16)).astype(np.float32)
        loss = pipeline.train_batch(x, np.abs(x).mean(1, keepdims=True))
    print("loss", round(loss, 4))


if __name__ == "__main__":
    main()
