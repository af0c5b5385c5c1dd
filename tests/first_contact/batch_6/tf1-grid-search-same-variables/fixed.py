import itertools
import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


class SVDpp:
    """Matrix factorisation with biases, in the style of the scikit-learn estimators."""

    def __init__(self, n_users, n_items, embed_size=8, lr=0.01, batches=40):
        self.n_users, self.n_items = n_users, n_items
        self.embed_size, self.lr, self.batches = embed_size, lr, batches
        self.sess = None

    def _build_model(self):
        self.users = tf1.placeholder(tf.int32, [None])
        self.items = tf1.placeholder(tf.int32, [None])
        self.ratings = tf1.placeholder(tf.float32, [None])
        normal = tf1.random_normal_initializer(stddev=0.1, seed=0)
        bu = tf1.get_variable("bu_var", [self.n_users], initializer=tf1.zeros_initializer())
        bi = tf1.get_variable("bi_var", [self.n_items], initializer=tf1.zeros_initializer())
        pu = tf1.get_variable("pu_var", [self.n_users, self.embed_size], initializer=normal)
        qi = tf1.get_variable("qi_var", [self.n_items, self.embed_size], initializer=normal)
        dot = tf.reduce_sum(tf.gather(pu, self.users) * tf.gather(qi, self.items), axis=1)
        self.pred = tf.gather(bu, self.users) + tf.gather(bi, self.items) + dot
        self.loss = tf.reduce_mean(tf.square(self.pred - self.ratings))
        self.train_op = tf1.train.AdamOptimizer(self.lr).minimize(self.loss)

    def fit(self, data, batch_size=64):
        with tf.Graph().as_default() as graph:
            self._build_model()
            init = tf1.global_variables_initializer()
        self.sess = tf1.Session(graph=graph)
        self.sess.run(init)
        rng = np.random.default_rng(0)
        for _ in range(self.batches):
            users, items, ratings = (column[rng.integers(0, len(data[0]), batch_size)] for column in data)
            self.sess.run(self.train_op, {self.users: users, self.items: items, self.ratings: ratings})
        return self

    def score(self, data):
        feed = dict(zip((self.users, self.items, self.ratings), data))
        return float(self.sess.run(self.loss, feed))

    def close(self):
        self.sess.close()


def ratings(n_users, n_items, n=600, seed=1):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
    return users, items, (np.sin(users) + np.cos(items)).astype("float32")


def grid_search(train, valid, grid, batches):
    scores = {}
    for embed_size, lr in itertools.product(*grid.values()):
        model = SVDpp(30, 20, embed_size=embed_size, lr=lr, batches=batches).fit(train)
        scores[embed_size, lr] = model.score(valid)
        model.close()
    return min(scores, key=scores.get), scores


if __name__ == "__main__":
    data = ratings(30, 20)
    grid = {"embed_size": [4, 8], "lr": [0.01, 0.05]}
    best, scores = grid_search(data, ratings(30, 20, seed=2), grid, int(os.environ.get("STEPS", "40")))
    print("best setting", best, "error", round(scores[best], 3))
