import os

import keras
import numpy as np
import tensorflow as tf


def build_conversion_model(n_features, hidden=16):
    """Conversion rate of a page, fitted to counts: each row has its own number of visitors."""
    features = keras.Input((n_features,), name="features")
    x = keras.layers.Dense(hidden, activation="relu")(features)
    rate = keras.layers.Dense(1, activation="sigmoid", name="rate")(x)
    model = keras.Model(features, rate)

    def binomial_loss(counts, rate):
        visitors, conversions = counts[:, :1], counts[:, 1:]
        rate = tf.clip_by_value(rate, 1e-6, 1 - 1e-6)
        misses = visitors - conversions
        return -tf.reduce_mean(conversions * tf.math.log(rate) + misses * tf.math.log(1 - rate))

    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=binomial_loss)
    return model


class PageLog:
    def __init__(self, n_features=4, seed=0):
        self.rng = np.random.default_rng(seed)
        self.weights = self.rng.normal(size=n_features)

    def draw(self, rows):
        features = self.rng.normal(size=(rows, len(self.weights))).astype("float32")
        visitors = self.rng.integers(5, 50, size=(rows, 1))
        rate = 1 / (1 + np.exp(-features @ self.weights))
        conversions = self.rng.binomial(visitors, rate[:, None])
        return features, visitors.astype("float32"), conversions.astype("float32")


class LossReport(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch}: loss {logs['loss']:.3f}")


def main():
    keras.utils.set_random_seed(0)
    steps = int(os.environ.get("STEPS", "40"))
    features, visitors, conversions = PageLog().draw(16 * steps)
    model = build_conversion_model(features.shape[1])
    counts = np.concatenate([visitors, conversions], axis=1)
    model.fit(features, counts, batch_size=16, epochs=1, verbose=0, callbacks=[LossReport()])


if __name__ == "__main__":
    main()
