import os
import tempfile

import numpy as np
import tensorflow as tf


class Ranker(tf.Module):
    def __init__(self, items=50, dim=16):
        super().__init__()
        self.user = tf.Variable(tf.random.normal((30, dim), stddev=0.1), name="user")
        self.item = tf.Variable(tf.random.normal((items, dim), stddev=0.1), name="item")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def recommend(self, users):
        scores = tf.matmul(tf.gather(self.user, users), self.item, transpose_b=True)
        return tf.math.top_k(scores, 5).indices

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def similar(self, items):
        unit = tf.math.l2_normalize(self.item, 1)
        return tf.math.top_k(tf.matmul(tf.gather(unit, items), unit, transpose_b=True), 6).indices[:, 1:]

    def train(self, pairs, steps):
        optimizer = tf.keras.optimizers.Adam(5e-2)
        for step in range(steps):
            users, items = pairs[step % len(pairs)]
            with tf.GradientTape() as tape:
                logits = tf.matmul(tf.gather(self.user, users), self.item, transpose_b=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=items, logits=logits))
            variables = [self.user, self.item]
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return float(loss)


class Router:
    def __init__(self):
        self.routes = {}

    def route(self, path, handler):
        self.routes[path] = handler

    def get(self, path, *ids):
        return self.routes[path](tf.constant(ids, tf.int32)).numpy().tolist()


def restore(checkpoint):
    ranker = Ranker()
    tf.train.Checkpoint(ranker=ranker).read(checkpoint).assert_consumed()
    return ranker


def build_app(checkpoint):
    app = Router()
    app.route("/recommend", restore(checkpoint).recommend)
    app.route("/similar", restore(checkpoint).similar)
    return app


def main(folder):
    tf.keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 30, 64), rng.integers(0, 50, 64)) for _ in range(8)]
    ranker = Ranker()
    loss = ranker.train(pairs, int(os.environ.get("STEPS", "40")))
    app = build_app(tf.train.Checkpoint(ranker=ranker).write(os.path.join(folder, "ranker")))
    print("loss", round(loss, 2), app.get("/recommend", 3, 4), app.get("/similar", 7))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
