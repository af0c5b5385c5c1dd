import os

import numpy as np
import tensorflow as tf


class PairScorer(tf.Module):
    def __init__(self, dim, name=None):
        super().__init__(name=name)
        self.projection = tf.Variable(tf.random.normal((dim, 8), stddev=0.3), name="projection")

    def similarity(self, a, b):
        a, b = tf.linalg.matvec(self.projection, a, transpose_a=True), tf.linalg.matvec(self.projection, b, transpose_a=True)
        return tf.reduce_sum(a * b) / (tf.norm(a) * tf.norm(b) + 1e-6)

    @tf.function
    def score_all(self, queries, document):
        return tf.map_fn(lambda query: self.similarity(query, document), queries)


def rank(scorer, queries, documents):
    table = [scorer.score_all(queries, document).numpy() for document in documents]
    return np.argmax(np.stack(table, axis=1), axis=1)


def main():
    tf.random.set_seed(7)
    count = int(os.environ.get("STEPS", "40"))
    scorer = PairScorer(16)
    queries = tf.random.normal((5, 16))
    documents = tf.random.normal((count, 16))
    best = rank(scorer, queries, documents)
    for i, j in enumerate(best):
        print("query", i, "->", "document", int(j))


if __name__ == "__main__":
    main()
