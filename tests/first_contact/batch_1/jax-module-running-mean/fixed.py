"""A small module system with batch normalisation."""
import os

import jax
import jax.numpy as jnp
from layers import Dense, Module


class BatchNorm(Module):
    def __init__(self, width, momentum=0.9):
        self.momentum = momentum
        self.mean = jnp.zeros(width)
        self.var = jnp.ones(width)

    def __call__(self, x, training):
        if training:
            mean, var = x.mean(0), x.var(0)
        else:
            mean, var = self.mean, self.var
        return (x - mean) / jnp.sqrt(var + 1e-5)


def refresh(norm, x):
    norm.mean = norm.momentum * norm.mean + (1 - norm.momentum) * x.mean(0)
    norm.var = norm.momentum * norm.var + (1 - norm.momentum) * x.var(0)


class Classifier(Module):
    def __init__(self, key):
        k1, k2 = jax.random.split(key)
        self.inner, self.norm, self.outer = Dense(k1, 6, 24), BatchNorm(24), Dense(k2, 24, 3)

    def params(self):
        return {"inner": self.inner.weights, "outer": self.outer.weights}

    def apply(self, params, x, training):
        h = self.norm(self.inner.apply(params["inner"], x), training)
        return self.outer.apply(params["outer"], jax.nn.relu(h))


model = Classifier(jax.random.key(0))


@jax.jit
def step(params, x, labels):
    def loss_fn(p):
        logp = jax.nn.log_softmax(model.apply(p, x, training=True))
        return -jnp.take_along_axis(logp, labels[:, None], 1).mean()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


params = model.params()
x = jax.random.normal(jax.random.key(1), (128, 6))
labels = jnp.argmax(x[:, :3], axis=1)
for i in range(int(os.environ.get("STEPS", "40"))):
    params, loss = step(params, x, labels)
    refresh(model.norm, model.inner.apply(params["inner"], x))
predicted = model.apply(params, x, training=False).argmax(1)
print("loss", float(loss), "accuracy", float((predicted == labels).mean()))
