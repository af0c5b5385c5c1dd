import os

import numpy as np
import tensorflow as tf


class Recognizer(tf.keras.Model):
    def __init__(self, symbols=20, units=32):
        super().__init__()
        self.conv = tf.keras.layers.Conv1D(units, 5, strides=2, padding="same", activation="relu")
        self.project = tf.keras.layers.Dense(symbols)

    def call(self, features):
        return self.project(self.conv(features))


class Corpus:
    """Aligned utterances in batches of similar length; each batch is padded to its own longest one."""

    def __init__(self, batches, batch_size=4, bands=20, seed=0):
        rng = np.random.default_rng(seed)
        lengths = np.sort(rng.integers(40, 800, batches * batch_size)).reshape(batches, batch_size)
        self.batches = [(rng.normal(size=(batch_size, 2 * row.max(), bands)).astype("float32"), row) for row in lengths]
        rng.shuffle(self.batches)

    def __iter__(self):
        for features, frames in self.batches:
            phones = features[:, ::2].argmax(-1)
            yield tf.constant(features), tf.constant(frames, tf.int32), tf.constant(phones, tf.int32)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = tf.keras.optimizers.SGD(0.05)
        self.loss = tf.keras.metrics.Mean()

    @tf.function(input_signature=[
        tf.TensorSpec([None, None, 20], tf.float32), tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None], tf.int32)
    ])
    def train_step(self, features, frames, phones):
        with tf.GradientTape() as tape:
            logits = self.model(features)
            mask = tf.sequence_mask(frames, tf.shape(phones)[1], tf.float32)
            errors = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=phones, logits=logits)
            loss = tf.reduce_sum(errors * mask) / tf.reduce_sum(mask)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        self.loss.update_state(loss)

    def run(self, corpus):
        for features, frames, phones in corpus:
            self.train_step(features, frames, phones)
        return float(self.loss.result())


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    tf.keras.utils.set_random_seed(0)
    trainer = Trainer(Recognizer())
    print("frame loss", round(trainer.run(Corpus(int(os.environ.get("STEPS", "40")))), 2))
