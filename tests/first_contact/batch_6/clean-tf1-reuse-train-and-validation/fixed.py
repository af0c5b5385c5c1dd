import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def network(x, scope="net", hidden=16):
    """Called for training and for validation; the second call gets the variables of the first."""
    with tf1.variable_scope(scope, reuse=tf1.AUTO_REUSE):
        w1 = tf1.get_variable("w1", [x.shape[1], hidden], initializer=tf1.glorot_uniform_initializer(seed=1))
        w2 = tf1.get_variable("w2", [hidden, 1], initializer=tf1.glorot_uniform_initializer(seed=2))
    return tf.matmul(tf.nn.tanh(tf.matmul(x, w1)), w2)


class Feed:
    """One iterator for all epochs; its initializer is run again with new rows."""

    def __init__(self, features, batch_size):
        self.x = tf1.placeholder(tf.float32, [None, features])
        self.y = tf1.placeholder(tf.float32, [None, 1])
        dataset = tf.data.Dataset.from_tensor_slices((self.x, self.y)).batch(batch_size)
        self.iterator = tf1.data.make_initializable_iterator(dataset)
        self.next_x, self.next_y = self.iterator.get_next()

    def rewind(self, session, rows):
        x, y = rows
        session.run(self.iterator.initializer, {self.x: x, self.y: y})


class Experiment:
    def __init__(self, features=5):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.train, self.valid = Feed(features, 32), Feed(features, 64)
            loss = tf.reduce_mean(tf.square(network(self.train.next_x) - self.train.next_y))
            self.valid_loss = tf.reduce_mean(tf.square(network(self.valid.next_x) - self.valid.next_y))
            self.rate = tf1.placeholder(tf.float32, [])
            self.train_op = tf1.train.AdamOptimizer(self.rate).minimize(loss)
            self.init = tf1.global_variables_initializer()
        self.graph.finalize()

    def epoch(self, session, rows, rate):
        self.train.rewind(session, rows)
        while True:
            try:
                session.run(self.train_op, {self.rate: rate})
            except tf.errors.OutOfRangeError:
                return

    def validate(self, session, rows):
        self.valid.rewind(session, rows)
        return float(session.run(self.valid_loss))


def draw(rng, n, features=5):
    x = rng.normal(size=(n, features)).astype("float32")
    return x, np.sin(x[:, :1]) * x[:, 1:2]


def main():
    rng = np.random.default_rng(0)
    experiment = Experiment()
    validation = draw(rng, 64)
    best = float("inf")
    for restart in range(2):
        with tf1.Session(graph=experiment.graph) as session:
            session.run(experiment.init)
            for epoch in range(int(os.environ.get("STEPS", "40")) // 2):
                experiment.epoch(session, draw(rng, 96), rate=0.02 / (1 + epoch))
                best = min(best, experiment.validate(session, validation))
    print("best validation loss", round(best, 3))


if __name__ == "__main__":
    main()
