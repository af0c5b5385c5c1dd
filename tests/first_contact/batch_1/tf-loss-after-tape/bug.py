import os
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class Config:
    units: int = 16
    learning_rate: float = 1e-2
    batch_size: int = 32
    steps: int = int(os.environ.get("STEPS", "40"))


class SiameseNet(tf.keras.Model):
    def __init__(self, config):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(config.units, activation="relu")
        self.embed = tf.keras.layers.Dense(8)

    def call(self, x):
        return tf.math.l2_normalize(self.embed(self.hidden(x)), axis=-1)


def triplet_loss(anchor, positive, negative, margin=0.3):
    near = tf.reduce_sum(tf.square(anchor - positive), axis=-1)
    far = tf.reduce_sum(tf.square(anchor - negative), axis=-1)
    return tf.reduce_mean(tf.nn.relu(near - far + margin))


def train_step(model, optimizer, triplet):
    a, p, n = triplet
    with tf.GradientTape() as tape:
        anchor, positive, negative = model(a), model(p), model(n)
    loss = triplet_loss(anchor, positive, negative)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def triplets(config, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(config.steps):
        a = rng.normal(size=(config.batch_size, 12)).astype("float32")
        yield a, a + 0.05 * rng.normal(size=a.shape).astype("float32"), a[::-1].copy()


def main():
    config = Config()
    model = SiameseNet(config)
    optimizer = tf.keras.optimizers.Adam(config.learning_rate)
    total = 0.0
    for triplet in triplets(config):
        total += float(train_step(model, optimizer, triplet))
    print("mean loss", total / config.steps)


if __name__ == "__main__":
    main()
