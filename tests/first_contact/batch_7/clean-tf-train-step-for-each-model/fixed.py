import os

import keras
import numpy as np
import tensorflow as tf


def make_train_step(model, optimizer, loss_fn):
    """A traced step of its own for each model, so that each can make its variables."""

    @tf.function
    def train_step(x, y, augment):
        if augment:  # a Python bool: one trace for each of its two values
            x = x + 0.05 * tf.random.stateless_normal(tf.shape(x), seed=(1, 2))
        with tf.GradientTape() as tape:
            prediction = model(x, training=True)
            loss = loss_fn(y, prediction)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        norms = []
        for gradient in gradients:
            norms.append(tf.norm(gradient))
        return {"loss": loss, "largest": tf.reduce_max(tf.stack(norms))}

    return train_step


class RunningMoments(tf.Module):
    """The statistics become variables at the first call, when the number of features is known."""

    def __init__(self, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.mean = None

    @tf.function
    def __call__(self, x):
        if self.mean is None:
            self.mean = tf.Variable(tf.zeros(x.shape[1:]), trainable=False)
            self.count = tf.Variable(0, trainable=False)
        self.count.assign_add(1)
        self.mean.assign(self.momentum * self.mean + (1 - self.momentum) * tf.reduce_mean(x, axis=0))
        return x - self.mean


def build(width):
    return keras.Sequential([
        keras.layers.Input((5,)), keras.layers.Dense(width, activation="tanh"), keras.layers.Dense(1)
    ])


def batches(steps, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        x = rng.normal(loc=2.0, size=(32, 5)).astype("float32")
        yield tf.constant(x), tf.constant(x[:, :1] * x[:, 1:2] - 4.0)


def main(steps):
    keras.utils.set_random_seed(0)
    for width in (8, 32):
        model, moments = build(width), RunningMoments()
        train_step = make_train_step(model, keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError())
        losses, largest = [], 0.0
        for n, (x, y) in enumerate(batches(steps, seed=width)):
            report = train_step(moments(x), y, augment=n % 2 == 0)
            losses.append(float(report["loss"]))
            largest = max(largest, report["largest"].numpy().item())
        traces = train_step.experimental_get_tracing_count()
        print(f"width {width}: loss {losses[-1]:.3f}, largest gradient {largest:.2f}, {traces} traces")


if __name__ == "__main__":
    main(int(os.environ.get("STEPS", "40")))
