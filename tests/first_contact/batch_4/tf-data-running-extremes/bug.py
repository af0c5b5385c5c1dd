import os

import numpy as np
import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "40"))
rng = np.random.default_rng(0)

# %% Sensor windows
signals = rng.normal(size=(STEPS * 16, 32, 3)).astype("float32").cumsum(axis=1)
labels = (signals[:, -1, 0] > 0).astype("float32")


# %% Input pipeline
class Normalizer:
    def __init__(self):
        self.low = None
        self.high = None

    def __call__(self, window, label):
        low, high = tf.reduce_min(window, axis=0), tf.reduce_max(window, axis=0)
        if self.low is None:
            self.low, self.high = low, high
        else:
            self.low, self.high = tf.minimum(self.low, low), tf.maximum(self.high, high)
        return (window - low) / (high - low + 1e-6), label


def augment(window, label):
    return window + tf.random.normal(tf.shape(window), stddev=0.02), label


normalizer = Normalizer()
dataset = (
    tf.data.Dataset.from_tensor_slices((signals, labels))
    .shuffle(256, seed=1)
    .map(normalizer, num_parallel_calls=2)
    .map(augment)
    .batch(16)
    .prefetch(2)
)

# %% Model
tf.keras.utils.set_random_seed(0)
model = tf.keras.Sequential([
    tf.keras.Input((32, 3)),
    tf.keras.layers.Conv1D(8, 5, activation="relu"),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
history = model.fit(dataset, epochs=1, verbose=0)
print("accuracy", round(history.history["accuracy"][-1], 2))

# %% Export the range of the sensors for the firmware
margin = 0.05 * (normalizer.high - normalizer.low)
sensor_range = tf.stack((normalizer.low - margin, normalizer.high + margin)).numpy()
print("range", sensor_range.round(1).tolist())
