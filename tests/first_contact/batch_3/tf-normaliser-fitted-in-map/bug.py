import os

import tensorflow as tf


class RunningNormaliser:
    def __init__(self, momentum=0.99):
        self.momentum = momentum
        self.mean = tf.zeros([])
        self.scale = tf.ones([])

    def __call__(self, signal, label):
        mean = tf.reduce_mean(signal)
        scale = tf.math.reduce_std(signal)
        self.mean = self.momentum * self.mean + (1.0 - self.momentum) * mean
        self.scale = self.momentum * self.scale + (1.0 - self.momentum) * scale
        return (signal - self.mean) / self.scale, label

    def normalise(self, signal):
        return (signal - self.mean) / self.scale


def make_signals(n, length=64):
    freq = tf.random.uniform([n, 1], 1.0, 8.0, seed=2)
    time = tf.linspace(0.0, 1.0, length)[None]
    signals = 3.0 + 5.0 * tf.sin(6.2832 * freq * time) + tf.random.normal([n, length], seed=3)
    return signals, tf.cast(freq[:, 0] > 4.0, tf.float32)


def main():
    tf.random.set_seed(0)
    batches = int(os.environ.get("STEPS", "40"))
    normaliser = RunningNormaliser()
    signals, labels = make_signals(8 * batches)
    train = tf.data.Dataset.from_tensor_slices((signals, labels)).map(normaliser).batch(8)

    model = tf.keras.Sequential([
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ])
    model.compile("adam", "binary_crossentropy")
    model.fit(train, epochs=1, verbose=0)

    new_signals, new_labels = make_signals(16)
    scores = model(normaliser.normalise(new_signals))[:, 0]
    print("accuracy", float(tf.reduce_mean(tf.cast((scores > 0.5) == (new_labels > 0.5), tf.float32))))


if __name__ == "__main__":
    main()
