import argparse
import os

import jax
import jax.numpy as jnp


class EarlyStopping:
    def __init__(self, patience=5, min_delta=1e-4):
        self.patience, self.min_delta = patience, min_delta
        self.best, self.bad = float("inf"), 0

    def update(self, loss):
        if loss < self.best - self.min_delta:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


class LogisticRegression:
    def __init__(self, features, lr=0.5):
        self.lr = lr
        self.theta = jnp.zeros(features)
        self.stopper = EarlyStopping()
        self._step = jax.jit(self._update)

    def loss(self, theta, x, y):
        z = x @ theta
        return jnp.mean(jnp.logaddexp(0.0, z) - y * z)

    def _update(self, theta, x, y):
        value, grad = jax.value_and_grad(self.loss)(theta, x, y)
        return theta - self.lr * grad, value

    def fit(self, x, y, epochs):
        for epoch in range(epochs):
            self.theta, value = self._step(self.theta, x, y)
            if self.stopper.update(float(value)):
                break
        return epoch, float(value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=int(os.environ.get("STEPS", "40")))
    parser.add_argument("--features", type=int, default=10)
    opts = parser.parse_args()
    x = jax.random.normal(jax.random.key(1), (256, opts.features))
    y = (x[:, 0] + 0.5 * x[:, 1] > 0).astype(jnp.float32)
    model = LogisticRegression(opts.features)
    print("epoch %d, loss %.4f" % model.fit(x, y, opts.epochs))
