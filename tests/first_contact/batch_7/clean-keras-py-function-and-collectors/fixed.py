import os
from collections import deque

import keras
import numpy as np
import tensorflow as tf


def tokenize(text):
    """Runs eagerly by tf.py_function, so that .numpy() is allowed here."""
    words = text.numpy().decode("utf-8").split()
    return np.array([sum(map(ord, word)) % 97 for word in words[:8]] + [0] * (8 - len(words)), np.int32)


def to_example(text, label):
    tokens = tf.py_function(tokenize, [text], tf.int32)
    return tf.ensure_shape(tokens, (8,)), label


class MedianError(keras.metrics.Metric):
    """Keeps the errors of one epoch, which reset_state clears."""

    def __init__(self, name="median_error"):
        super().__init__(name=name)
        self.errors = []

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.errors.append(np.abs(np.asarray(y_true) - np.asarray(y_pred)).ravel())

    def result(self):
        return float(np.median(np.concatenate(self.errors))) if self.errors else 0.0

    def reset_state(self):
        self.errors = []


class FrequencyScale(keras.layers.Layer):
    """Scales by how often a token was seen; the counts are a weight of the layer."""

    def build(self, input_shape):
        self.counts = self.add_weight(shape=(97,), initializer="ones", trainable=False, name="counts")

    def call(self, tokens, training=False):
        if training:
            self.counts.assign_add(tf.math.bincount(tf.reshape(tokens, [-1]), minlength=97, dtype=tf.float32))
        return 1.0 / tf.sqrt(tf.gather(self.counts, tokens))


class LastPredictions(keras.callbacks.Callback):
    def __init__(self, probe, keep=3):
        super().__init__()
        self.probe = probe
        self.recent = deque(maxlen=keep)

    def on_epoch_end(self, epoch, logs=None):
        self.recent.append(self.model(self.probe, training=False))

    def on_train_end(self, logs=None):
        self.drift = float(tf.reduce_max(tf.math.reduce_std(tf.stack(list(self.recent)), axis=0)))
        self.recent.clear()


def reviews(count):
    rng, words = np.random.default_rng(0), np.array(["good", "bad", "fine", "awful", "great", "dull", "long", "short"])
    chosen = rng.integers(0, len(words), size=(count, 6))
    return [" ".join(words[row]) for row in chosen], (chosen % 2 == 0).mean(1).astype("float32")


def main(epochs):
    keras.utils.set_random_seed(4)
    texts, stars = reviews(48)
    data = tf.data.Dataset.from_tensor_slices((texts, stars)).map(to_example).batch(24)
    tokens = keras.Input((8,), dtype="int32")
    x = keras.layers.Embedding(97, 8)(tokens) * keras.ops.expand_dims(FrequencyScale()(tokens), -1)
    outputs = keras.layers.Dense(1)(keras.layers.GlobalAveragePooling1D()(x))
    model = keras.Model(tokens, keras.layers.Reshape(())(outputs))
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss="mae", metrics=[MedianError()], run_eagerly=True)
    probe = LastPredictions(next(iter(data))[0][:4])
    history = model.fit(data, epochs=epochs, shuffle=False, verbose=0, callbacks=[probe]).history
    print(f"median error {history['median_error'][0]:.3f} -> {history['median_error'][-1]:.3f}, drift {probe.drift:.3f}")


if __name__ == "__main__":
    main(int(os.environ.get("STEPS", "40")))
