import contextlib
import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


class FactorizationMachine:
    def __init__(self, fields, factors=6):
        self.x = tf.placeholder(tf.float32, [None, fields])
        self.y = tf.placeholder(tf.float32, [None])
        self.rate = tf.placeholder_with_default(0.02, [])
        bias = tf.Variable(0.0)
        linear = tf.Variable(tf.zeros([fields]))
        latent = tf.Variable(tf.random_normal([fields, factors], stddev=0.05))
        square = tf.square(tf.matmul(self.x, latent)) - tf.matmul(tf.square(self.x), tf.square(latent))
        self.score = bias + tf.reduce_sum(self.x * linear, 1) + 0.5 * tf.reduce_sum(square, 1)
        self.loss = tf.reduce_mean(tf.squared_difference(self.score, self.y))
        self.train_op = tf.train.AdamOptimizer(self.rate).minimize(self.loss)
        self.init_op = tf.global_variables_initializer()


@contextlib.contextmanager
def fold_session(seed):
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(seed)
        model = FactorizationMachine(fields=12)
        graph.finalize()
        with tf.Session(graph=graph) as sess:
            sess.run(model.init_op)
            yield sess, model


def folds(n, k):
    order = np.random.RandomState(3).permutation(n)
    for part in np.array_split(order, k):
        yield np.setdiff1d(order, part), part


def cross_validate(x, y, k, steps):
    results = []
    for seed, (train, test) in enumerate(folds(len(x), k)):
        rng = np.random.RandomState(seed)
        with fold_session(seed) as (sess, model):
            curve = []
            for step in range(steps):
                rows = rng.choice(train, 32)
                feed = {model.x: x[rows], model.y: y[rows], model.rate: 0.02 / (1 + 0.01 * step)}
                _, value = sess.run([model.train_op, model.loss], feed)
                curve.append(value)
            predicted = model.score.eval({model.x: x[test]})
        results.append({"test": float(np.mean((predicted - y[test]) ** 2)), "train": float(np.mean(curve[-10:]))})
    return results


def main():
    rng = np.random.RandomState(0)
    x = (rng.rand(300, 12) < 0.3).astype(np.float32)
    y = x[:, 0] * x[:, 1] - x[:, 2] * x[:, 3] + 0.1 * rng.randn(300)
    results = cross_validate(x, y, k=3, steps=int(os.environ.get("STEPS", "40")))
    print("test %.3f train %.3f" % tuple(np.mean([r[key] for r in results]) for key in ("test", "train")))
    print("left in the default graph:", len(tf.get_default_graph().get_operations()))


if __name__ == "__main__":
    main()
