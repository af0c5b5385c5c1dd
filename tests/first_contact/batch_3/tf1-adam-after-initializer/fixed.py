import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()


class LinearDigits:
    def __init__(self, img_size_flat=64, num_classes=10):
        self.x = tf.placeholder(tf.float32, [None, img_size_flat])
        self.y_true_cls = tf.placeholder(tf.int64, [None])
        self.weights = tf.Variable(tf.random_normal([img_size_flat, num_classes], stddev=0.01, seed=3))
        self.biases = tf.Variable(tf.zeros([num_classes]))
        self.logits = tf.matmul(self.x, self.weights) + self.biases
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=self.logits, labels=self.y_true_cls)
        self.cost = tf.reduce_mean(entropy)
        correct = tf.equal(tf.argmax(self.logits, axis=1), self.y_true_cls)
        self.accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))


def next_batch(rng, centres, size=32):
    labels = rng.integers(0, 10, size)
    return centres[labels] + rng.normal(size=(size, 64)), labels


def optimize(session, model, learning_rate, num_iterations, rng, centres):
    adam = tf.train.AdamOptimizer(learning_rate=learning_rate)
    optimizer = adam.minimize(model.cost)
    session.run(tf.variables_initializer(adam.variables()))
    for _ in range(num_iterations):
        images, labels = next_batch(rng, centres)
        session.run(optimizer, feed_dict={model.x: images, model.y_true_cls: labels})


def print_accuracy(session, model, rng, centres):
    images, labels = next_batch(rng, centres, 500)
    acc = session.run(model.accuracy, feed_dict={model.x: images, model.y_true_cls: labels})
    print("Accuracy on test-set: {0:.1%}".format(acc))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 64))
    model = LinearDigits()
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    print_accuracy(session, model, rng, centres)
    optimize(session, model, 0.01, int(os.environ.get("STEPS", 40)), rng, centres)
    print_accuracy(session, model, rng, centres)
    session.close()
