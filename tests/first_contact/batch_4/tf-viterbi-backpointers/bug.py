import os

import numpy as np
import tensorflow as tf


class CRF(tf.Module):
    """A linear-chain CRF over the scores of a bidirectional encoder."""

    def __init__(self, tags, units=24, vocab=40):
        super().__init__()
        self.tags = tags
        self.embedding = tf.keras.layers.Embedding(vocab, units)
        self.encoder = tf.keras.layers.Bidirectional(tf.keras.layers.GRU(units, return_sequences=True))
        self.scores = tf.keras.layers.Dense(tags)
        self.transitions = tf.Variable(tf.random.normal((tags, tags), stddev=0.1))

    @property
    def weights(self):
        layers = (self.embedding, self.encoder, self.scores)
        return [w for layer in layers for w in layer.trainable_variables] + [self.transitions]

    def unary(self, words):
        return self.scores(self.encoder(self.embedding(words)))

    def log_likelihood(self, words, tags):
        unary = self.unary(words)
        gold = tf.reduce_sum(tf.gather(unary, tags, batch_dims=2), 1)
        gold += tf.reduce_sum(tf.gather_nd(self.transitions, tf.stack((tags[:, :-1], tags[:, 1:]), -1)), 1)
        alpha = unary[:, 0]
        for t in range(1, words.shape[1]):
            alpha = unary[:, t] + tf.reduce_logsumexp(alpha[:, :, None] + self.transitions, 1)
        return tf.reduce_mean(gold - tf.reduce_logsumexp(alpha, 1))

    def decode(self, words, n_best=2):
        unary = self.unary(words)
        length = words.shape[1]
        pointers = tf.TensorArray(tf.int32, size=length - 1)
        score = unary[:, 0]
        for t in range(1, length):
            candidates = score[:, :, None] + self.transitions
            pointers = pointers.write(t - 1, tf.argmax(candidates, 1, output_type=tf.int32))
            score = unary[:, t] + tf.reduce_max(candidates, 1)
        best = tf.math.top_k(score, n_best).indices
        return [self.backtrace(best[:, k], pointers, length) for k in range(n_best)]

    def backtrace(self, last, pointers, length):
        path = [last]
        for t in range(length - 2, -1, -1):
            path.append(tf.gather(pointers.read(t), path[-1], batch_dims=1))
        return tf.stack(path[::-1], 1)


def sentences(rng, n=32, length=12):
    words = rng.integers(0, 40, (n, length))
    tags = (words + np.roll(words, 1, axis=1)) % 5
    return words, tags.astype(np.int32)


def main():
    tf.keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    crf = CRF(tags=5)
    optimizer = tf.keras.optimizers.Adam(1e-2)
    for _ in range(int(os.environ.get("STEPS", "40"))):
        words, tags = sentences(rng)
        with tf.GradientTape() as tape:
            loss = -crf.log_likelihood(words, tags)
        weights = crf.weights
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    words, tags = sentences(rng)
    first, second = crf.decode(words)
    print("loss", round(float(loss), 2), "accuracy", np.mean(first == tags).round(2), np.mean(second == tags).round(2))


if __name__ == "__main__":
    main()
