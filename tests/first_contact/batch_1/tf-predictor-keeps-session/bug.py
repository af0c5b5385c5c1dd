import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


class Predictor:
    def __init__(self, n_features):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, n_features], name="x")
            self.y = tf1.placeholder(tf.float32, [None], name="y")
            w = tf1.get_variable("w", [n_features, 1], initializer=tf1.zeros_initializer())
            b = tf1.get_variable("b", [1], initializer=tf1.zeros_initializer())
            self.output = tf.squeeze(tf.matmul(self.x, w) + b, axis=1)
            self.loss = tf.reduce_mean(tf.square(self.output - self.y))
            self.train_op = tf1.train.GradientDescentOptimizer(0.05).minimize(self.loss)
            self.init = tf1.global_variables_initializer()
        self.session = None

    def fit(self, x, y, steps):
        with tf1.Session(graph=self.graph) as session:
            self.session = session
            session.run(self.init)
            for _ in range(steps):
                _, loss = session.run([self.train_op, self.loss], feed_dict={self.x: x, self.y: y})
        return loss

    def predict(self, x):
        return self.session.run(self.output, feed_dict={self.x: x})


def main():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5)).astype("float32")
    y = x @ np.arange(5, dtype="float32") + 1.0
    model = Predictor(5)
    print("train loss", model.fit(x[:150], y[:150], int(os.environ.get("STEPS", "40"))))
    error = np.abs(model.predict(x[150:]) - y[150:]).mean()
    print("test error", error)


if __name__ == "__main__":
    main()
