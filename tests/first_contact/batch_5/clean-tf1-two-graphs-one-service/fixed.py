import contextlib
import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


class Regressor:
    def __init__(self, n_inputs, learning_rate):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, n_inputs])
            self.y = tf1.placeholder(tf.float32, [None])
            self.rate = tf1.placeholder_with_default(learning_rate, [])
            weights = tf1.get_variable("weights", [n_inputs], initializer=tf1.zeros_initializer())
            self.prediction = tf.linalg.matvec(self.x, weights)
            self.loss = tf.reduce_mean(tf.square(self.prediction - self.y))
            self.train_op = tf1.train.AdamOptimizer(self.rate).minimize(self.loss)
            init = tf1.global_variables_initializer()
        self.graph.finalize()
        self.session = tf1.Session(graph=self.graph)
        self.session.run(init)

    def update(self, x, y, rate=None):
        feed = {self.x: x, self.y: y}
        if rate is not None:
            feed[self.rate] = rate
        return self.session.run([self.train_op, self.loss], feed)[1]

    def predict(self, x):
        return self.session.run(self.prediction, {self.x: x})

    def close(self):
        self.session.close()


def main():
    rng = np.random.default_rng(0)
    steps = int(os.environ.get("STEPS", "40"))
    with contextlib.closing(Regressor(4, 0.05)) as demand, contextlib.closing(Regressor(5, 0.05)) as price:
        losses = []
        for step in range(steps):
            x = rng.normal(size=(64, 4)).astype("float32")
            sold = x @ np.array([1.0, -0.5, 0.2, 0.0], dtype="float32")
            demand.update(x, sold, rate=0.05 / (1 + step / steps))
            with_demand = np.concatenate([x, demand.predict(x)[:, None]], axis=1)
            losses.append(price.update(with_demand, 2 * sold + x[:, 3]))
            losses = losses[-10:]
        print("price loss", np.mean(losses))


if __name__ == "__main__":
    main()
