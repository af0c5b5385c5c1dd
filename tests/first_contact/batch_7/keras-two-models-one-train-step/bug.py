import os

import keras
import numpy as np
import tensorflow as tf

loss_fn = keras.losses.Huber()


def wide(features):
    return keras.Sequential([
        keras.layers.Input((features,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)
    ], name="wide")


def deep(features):
    return keras.Sequential([
        keras.layers.Input((features,)),
        *(keras.layers.Dense(16, activation="relu") for _ in range(3)),
        keras.layers.Dense(1),
    ], name="deep")


@tf.function
def train_step(model, optimizer, x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


class RentalData:
    def __init__(self, rows=512, features=7):
        rng = np.random.default_rng(12)
        self.x = rng.normal(size=(rows, features)).astype("float32")
        self.y = (self.x[:, :2].sum(1) + np.abs(self.x[:, 2]))[:, None]

    def dataset(self, steps):
        pairs = tf.data.Dataset.from_tensor_slices((self.x, self.y))
        return pairs.shuffle(512, seed=3).repeat().batch(32).take(steps)


def compare(builders, data, steps):
    scores = {}
    for build in builders:
        model = build(data.x.shape[1])
        optimizer = keras.optimizers.Adam(learning_rate=3e-3)
        smoothed = None
        for x, y in data.dataset(steps):
            loss = float(train_step(model, optimizer, x, y))
            smoothed = loss if smoothed is None else 0.9 * smoothed + 0.1 * loss
        scores[model.name] = smoothed
    return scores


if __name__ == "__main__":
    keras.utils.set_random_seed(21)
    for name, score in compare([wide, deep], RentalData(), int(os.environ.get("STEPS", "40"))).items():
        print(f"{name}: {score:.3f}")
