import math
import os
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Coefficients(NamedTuple):
    kl: float
    temperature: float


class Annealing:
    """Warms the KL term up and cools the temperature down."""

    def __init__(self, steps, kl_max=0.5, hottest=2.0, coolest=0.3):
        self.steps = steps
        self.kl_max = kl_max
        self.hottest = hottest
        self.coolest = coolest

    def at(self, step):
        progress = step / max(1, self.steps - 1)
        temperature = self.coolest + (self.hottest - self.coolest) * 0.5 * (1 + math.cos(math.pi * progress))
        return Coefficients(kl=self.kl_max * progress, temperature=temperature)


class SwitchingModel(tf.Module):
    """A mixture of linear maps with a Gumbel-softmax switch."""

    def __init__(self, features=6, regimes=4):
        super().__init__()
        init = tf.random.Generator.from_seed(1)
        self.switch = tf.Variable(0.1 * init.normal((features, regimes)))
        self.maps = tf.Variable(0.1 * init.normal((regimes, features, features)))
        self.noise = tf.random.Generator.from_seed(2)

    def __call__(self, x, temperature):
        logits = x @ self.switch
        gumbel = -tf.math.log(-tf.math.log(self.noise.uniform(tf.shape(logits), 1e-6, 1.0 - 1e-6)))
        weights = tf.nn.softmax((logits + gumbel) / temperature)
        return tf.einsum("nr,rij,ni->nj", weights, self.maps, x), tf.nn.softmax(logits)


class Learner:
    def __init__(self, model, learning_rate=0.05):
        self.model = model
        self.learning_rate = learning_rate

    @tf.function
    def train_step(self, x, following, coefficients):
        with tf.GradientTape() as tape:
            prediction, regimes = self.model(x, coefficients.temperature)
            reconstruction = tf.reduce_mean((prediction - following) ** 2)
            usage = tf.reduce_mean(regimes, axis=0)
            divergence = tf.reduce_sum(usage * tf.math.log(usage * usage.shape[0] + 1e-8))
            loss = reconstruction + coefficients.kl * divergence
        for variable, gradient in zip(self.model.trainable_variables, tape.gradient(loss, self.model.trainable_variables)):
            variable.assign_sub(self.learning_rate * gradient)
        return loss


def trajectories(steps, features=6, batch_size=64):
    rng = np.random.default_rng(9)
    dynamics = 0.4 * rng.normal(size=(2, features, features))
    for _ in range(steps):
        x = rng.normal(size=(batch_size, features))
        following = np.where(x[:, :1] > 0, x @ dynamics[0], x @ dynamics[1])
        yield tf.constant(x, tf.float32), tf.constant(following, tf.float32)


if __name__ == "__main__":
    steps = int(os.environ.get("STEPS", "40"))
    learner, annealing = Learner(SwitchingModel()), Annealing(steps)
    losses = []
    for step, (x, following) in enumerate(trajectories(steps)):
        losses.append(float(learner.train_step(x, following, annealing.at(step))))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
