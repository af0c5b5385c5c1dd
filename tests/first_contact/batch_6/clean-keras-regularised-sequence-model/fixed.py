import os
from collections import deque

import keras
import numpy as np
import tensorflow as tf


class GatedMix(keras.layers.Layer):
    """Remembers the shape of its last input, and adds a penalty for open gates to the loss."""

    def __init__(self, penalty=1e-2):
        super().__init__()
        self.penalty = penalty
        self.last_shape = None

    def build(self, input_shape):
        width = input_shape[-1]
        self.gate = self.add_weight(shape=(width,), initializer="zeros", name="gate")
        self.mean_gate = self.add_weight(shape=(), initializer="zeros", trainable=False, name="mean_gate")

    def call(self, inputs, training=None):
        self.last_shape = tuple(inputs.shape[1:])
        gate = keras.ops.sigmoid(self.gate)
        self.add_loss(self.penalty * keras.ops.mean(gate))
        if training:
            self.mean_gate.assign(0.9 * self.mean_gate + 0.1 * keras.ops.mean(gate))
        return gate * inputs + (1 - gate) * keras.ops.roll(inputs, 1, axis=1)


class Tagger(keras.Model):
    def __init__(self, vocab=30, width=16, tags=4):
        super().__init__()
        self.embed = keras.layers.Embedding(vocab, width)
        self.mix = GatedMix()
        self.head = keras.layers.Dense(tags)
        self.norm = keras.metrics.Mean(name="gradient_norm")

    def call(self, tokens, training=None):
        return self.head(self.mix(self.embed(tokens), training=training))

    def train_step(self, data):
        tokens, tags = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=tokens, y=tags, y_pred=self(tokens, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.norm.update_state(tf.linalg.global_norm(gradients))
        return {"loss": loss, "gradient_norm": self.norm.result()}


class Recent(keras.callbacks.Callback):
    def __init__(self, length=10):
        super().__init__()
        self.losses = deque(maxlen=length)

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))


def predict_padded(model, sequence, bucket=16):
    """Tag one sequence of any length up to the bucket, so that the model sees a single shape."""
    padded = np.zeros((1, bucket), "int32")
    padded[0, : len(sequence)] = sequence
    return model.predict_on_batch(padded)[0, : len(sequence)].argmax(-1)


def main():
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    steps = int(os.environ.get("STEPS", "40"))
    tokens = rng.integers(0, 30, size=(8 * steps, 16))
    model, recent = Tagger(), Recent()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss)
    model.fit(tokens, np.roll(tokens, 1, axis=1) % 4, batch_size=8, verbose=0, callbacks=[recent])
    tagged = sum(len(predict_padded(model, rng.integers(0, 30, n))) for n in range(4, 10))
    print("loss", round(sum(recent.losses) / len(recent.losses), 3), "shape", model.mix.last_shape)
    print("mean gate", round(float(model.mix.mean_gate), 3), "tokens tagged", tagged)


if __name__ == "__main__":
    main()
