import os

import keras
import numpy as np
import tensorflow as tf


class ScoreLoss(keras.losses.Loss):
    """Binary cross-entropy with more weight on the rare positive class."""

    def __init__(self, positive_weight=4.0):
        super().__init__()
        self.positive_weight = positive_weight

    def call(self, y_true, y_pred):
        weight = 1.0 + (self.positive_weight - 1.0) * y_true
        return tf.reduce_mean(weight * keras.losses.binary_crossentropy(y_true, y_pred)[:, None], axis=1)


class ExactAUC(keras.metrics.Metric):
    """Area under the ROC curve from all scores of an epoch; keras.metrics.AUC works with thresholds."""

    def __init__(self, name="exact_auc"):
        super().__init__(name=name)
        self.labels = []
        self.scores = []

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.labels.append(tf.reshape(y_true, [-1]))
        self.scores.append(tf.reshape(y_pred, [-1]))

    def reset_state(self):
        self.labels = []
        self.scores = []

    def result(self):
        if not self.scores:
            return 0.0
        labels, scores = tf.concat(self.labels, 0), tf.concat(self.scores, 0)
        rank = tf.cast(tf.argsort(tf.argsort(scores)) + 1, tf.float32)
        positives = tf.reduce_sum(labels)
        negatives = tf.cast(tf.size(labels), tf.float32) - positives
        above = tf.reduce_sum(rank * labels) - positives * (positives + 1) / 2
        return above / tf.maximum(positives * negatives, 1.0)


def transactions(rows=1024, features=12):
    rng = np.random.default_rng(17)
    x = rng.normal(size=(rows, features)).astype("float32")
    y = (x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=rows) > 2.0).astype("float32")
    return x, y[:, None]


def build_model(features):
    inputs = keras.Input((features,))
    x = keras.layers.Dense(32, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


def main():
    keras.utils.set_random_seed(17)
    x, y = transactions()
    model = build_model(x.shape[1])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=ScoreLoss(), metrics=[ExactAUC()], run_eagerly=True)
    history = model.fit(x, y, batch_size=512, epochs=int(os.environ.get("STEPS", "40")), verbose=0)
    areas = history.history["exact_auc"]
    print(f"area {areas[0]:.3f} -> {areas[-1]:.3f} after {len(areas)} epochs")


if __name__ == "__main__":
    main()
