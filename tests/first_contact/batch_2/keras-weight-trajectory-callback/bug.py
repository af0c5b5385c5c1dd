import os

import keras
import numpy as np
import tensorflow as tf


class WeightDrift(keras.callbacks.Callback):
    """Distance that the weights move from batch to batch."""

    def __init__(self):
        super().__init__()
        self.trajectory = []
        self.drift = []

    def on_train_begin(self, logs=None):
        self.trajectory.append(self.snapshot())

    def on_train_batch_end(self, batch, logs=None):
        self.trajectory.append(self.snapshot())
        before, after = self.trajectory[-2], self.trajectory[-1]
        moved = sum(float(tf.reduce_sum(tf.square(a - b))) for a, b in zip(after, before))
        self.drift.append(moved**0.5)

    def snapshot(self):
        return [tf.identity(v.value) for v in self.model.trainable_variables]


def build():
    inputs = keras.Input((24,))
    x = keras.layers.Dense(64, activation="relu")(inputs)
    x = keras.layers.Dense(64, activation="relu")(x)
    outputs = keras.layers.Dense(1)(x)
    model = keras.Model(inputs, outputs)
    model.compile(optimizer="adam", loss="mse")
    return model


def main():
    keras.utils.set_random_seed(0)
    steps = int(os.environ.get("STEPS", "40"))
    x = np.random.normal(size=(8 * steps, 24)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    drift = WeightDrift()
    history = build().fit(x, y, batch_size=8, epochs=1, verbose=0, callbacks=[drift])
    print("loss", round(history.history["loss"][-1], 2), "mean drift", round(float(np.mean(drift.drift)), 4))


if __name__ == "__main__":
    main()
