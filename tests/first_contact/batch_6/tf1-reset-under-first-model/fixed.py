import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


class Toolkit:
    """What the classifiers have in common: weights live in NumPy between the calls, a session only lasts for one call."""

    def __init__(self, inputs, classes, lr=0.5):
        self.weights = np.zeros((inputs, classes), "float32")
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.build(inputs, classes, lr)

    def fit(self, x, y, iterations):
        with tf1.Session(graph=self.graph) as session:
            session.run(self.assign, {self.initial: self.weights})
            for _ in range(iterations):
                session.run(self.train_op, {self.x: x, self.y: y})
            self.weights = session.run(self.kernel)
        return self

    def predict(self, x):
        with tf1.Session(graph=self.graph) as session:
            session.run(self.assign, {self.initial: self.weights})
            return session.run(self.probs, {self.x: x}).argmax(axis=1)


class ActivityClassifier(Toolkit):
    def build(self, inputs, classes, lr):
        self.x = tf1.placeholder(tf.float32, [None, inputs], name="windows")
        self.y = tf1.placeholder(tf.int32, [None], name="activities")
        self.initial = tf1.placeholder(tf.float32, [inputs, classes])
        self.kernel = tf1.get_variable("activity/kernel", [inputs, classes])
        self.assign = self.kernel.assign(self.initial)
        logits = tf.matmul(tf.abs(self.x), self.kernel)
        self.probs = tf.nn.softmax(logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits)
        self.train_op = tf1.train.GradientDescentOptimizer(lr).minimize(tf.reduce_mean(loss))


class DrawingClassifier(Toolkit):
    def build(self, inputs, classes, lr):
        self.x = tf1.placeholder(tf.float32, [None, inputs], name="bitmaps")
        self.y = tf1.placeholder(tf.int32, [None], name="shapes")
        self.initial = tf1.placeholder(tf.float32, [inputs, classes])
        self.kernel = tf1.get_variable("drawing/kernel", [inputs, classes])
        self.assign = self.kernel.assign(self.initial)
        logits = tf.matmul(tf.nn.relu(self.x), self.kernel)
        self.probs = tf.nn.softmax(logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits)
        self.train_op = tf1.train.GradientDescentOptimizer(lr).minimize(tf.reduce_mean(loss))


def samples(n, inputs, classes, seed):
    x = np.random.default_rng(seed).normal(size=(n, inputs)).astype("float32")
    return x, np.abs(x[:, :classes]).argmax(1)


def main():
    iterations = int(os.environ.get("STEPS", "40"))
    windows, activities = samples(120, 6, 3, seed=0)
    bitmaps, shapes = samples(120, 16, 4, seed=1)
    activity = ActivityClassifier(6, 3).fit(windows, activities, iterations)
    drawing = DrawingClassifier(16, 4).fit(bitmaps, shapes, iterations)
    print("drawings", (drawing.predict(bitmaps) == shapes).mean())
    print("activities", (activity.predict(windows) == activities).mean())


if __name__ == "__main__":
    main()
