import os

import numpy as np
import tensorflow as tf


class Seq2Seq(tf.keras.Model):
    """Encoder and attentive decoder; the number of decoded symbols is a Python number, so the loop is unrolled."""

    def __init__(self, vocab=20, units=24):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(vocab, units)
        self.encoder = tf.keras.layers.GRU(units, return_sequences=True, return_state=True)
        self.cell = tf.keras.layers.GRUCell(units)
        self.output_layer = tf.keras.layers.Dense(vocab)
        self.traced_lengths = []

    def call(self, source, length, teacher=None):
        memory, state = self.encoder(self.embedding(source))
        token = tf.zeros_like(source[:, 0])
        logits, attention = [], []
        for i in range(length):
            weights = tf.nn.softmax(tf.einsum("bd,btd->bt", state, memory))
            context = tf.einsum("bt,btd->bd", weights, memory)
            output, state = self.cell(tf.concat((self.embedding(token), context), -1), state)
            scores = self.output_layer(output)
            token = teacher[:, i] if teacher is not None else tf.argmax(scores, -1, output_type=token.dtype)
            logits.append(scores)
            attention.append(weights)
        return tf.stack(logits, 1), tf.stack(attention, 1)


class Task:
    def __init__(self, model, length):
        self.model, self.length = model, length
        self.optimizer = tf.keras.optimizers.Adam(5e-3)
        self.baseline = None

    @tf.function
    def train_step(self, source, target):
        if self.baseline is None:
            self.baseline = tf.Variable(0.0, trainable=False)
        self.model.traced_lengths.append(self.length)
        with tf.GradientTape() as tape:
            logits, _ = self.model(source, length=self.length, teacher=target)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits))
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.baseline.assign(0.9 * self.baseline + 0.1 * loss)
        return loss

    @tf.function
    def translate(self, source):
        logits, attention = self.model(source, length=self.length)
        return tf.argmax(logits, -1), attention


def main():
    tf.keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    task = Task(Seq2Seq(), length=5)
    losses = []
    for _ in range(int(os.environ.get("STEPS", "40"))):
        source = rng.integers(1, 20, (32, 5)).astype("int32")
        losses.append(float(task.train_step(tf.constant(source), tf.constant(source[:, ::-1].copy()))))
    tokens, attention = task.translate(tf.constant(source[:2]))
    print("loss", round(np.mean(losses[-5:]), 2), "average", round(float(task.baseline), 2), task.model.traced_lengths)
    print(tokens.numpy().tolist(), attention.shape)


if __name__ == "__main__":
    main()
