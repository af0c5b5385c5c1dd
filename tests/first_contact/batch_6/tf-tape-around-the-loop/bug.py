import os

import numpy as np
import tensorflow as tf


class EmbeddingLayer(tf.Module):
    """Rows of a table; the gradient of the rows that a batch has used is sent to the server that owns them."""

    def __init__(self, rows, dim, seed=0):
        super().__init__(name="embedding")
        rng = np.random.default_rng(seed)
        self.table = rng.normal(scale=0.1, size=(rows, dim)).astype("float32")
        self.used = None

    def lookup(self, ids, tape):
        unique, positions = np.unique(ids, return_inverse=True)
        rows = tf.constant(self.table[unique])
        tape.watch(rows)
        self.used = (unique, rows)
        return tf.gather(rows, positions.reshape(ids.shape))

    def push_gradient(self, gradient, lr):
        unique, rows = self.used
        self.table[unique] = (rows - lr * tf.convert_to_tensor(gradient)).numpy()
        self.used = None


class Worker:
    def __init__(self, vocab=200, dim=32, lr=0.2):
        self.embedding = EmbeddingLayer(vocab, dim)
        self.kernel = tf.Variable(tf.random.stateless_normal([dim, 2], seed=[1, 2], stddev=0.1))
        self.lr = lr

    def loss(self, ids, labels, tape):
        pooled = tf.nn.tanh(tf.reduce_mean(self.embedding.lookup(ids, tape), axis=1))
        logits = pooled @ self.kernel
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

    def train_task(self, batches):
        with tf.GradientTape(persistent=True) as tape:
            for ids, labels in batches:
                loss = self.loss(ids, labels, tape)
                rows_gradient = tape.gradient(loss, self.embedding.used[1])
                kernel_gradient = tape.gradient(loss, self.kernel)
                self.embedding.push_gradient(rows_gradient, self.lr)
                self.kernel.assign_sub(self.lr * kernel_gradient)
        return float(loss)


def documents(steps, vocab=200, length=40, batch_size=32, seed=3):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        ids = rng.integers(0, vocab, size=(batch_size, length))
        yield ids, (ids % 2).mean(axis=1).round().astype("int64")


def main():
    worker = Worker()
    print("loss of the last batch", round(worker.train_task(documents(int(os.environ.get("STEPS", "40")))), 3))


if __name__ == "__main__":
    main()
