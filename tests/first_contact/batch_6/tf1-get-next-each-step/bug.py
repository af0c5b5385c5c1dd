import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def vibration_dataset(windows=200, length=16, batch_size=8, seed=0):
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6, size=(windows, 1))
    broken = rng.integers(0, 2, size=(windows, 1))
    signal = np.sin(phase + np.arange(length) * (1 + broken)) + 0.1 * rng.normal(size=(windows, length))
    dataset = tf.data.Dataset.from_tensor_slices((signal.astype("float32"), broken.astype("float32")))
    return dataset.shuffle(windows, seed=seed).repeat().batch(batch_size)


class Detector:
    def __init__(self, length=16, hidden=12, lr=0.05):
        self.signal = tf1.placeholder(tf.float32, [None, length], name="signal")
        self.broken = tf1.placeholder(tf.float32, [None, 1], name="broken")
        w1 = tf1.get_variable("w1", [length, hidden], initializer=tf1.glorot_uniform_initializer(seed=1))
        w2 = tf1.get_variable("w2", [hidden, 1], initializer=tf1.glorot_uniform_initializer(seed=2))
        logits = tf.matmul(tf.nn.relu(tf.matmul(self.signal, w1)), w2)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=self.broken, logits=logits)
        self.loss = tf.reduce_mean(losses)
        self.train_op = tf1.train.MomentumOptimizer(lr, 0.9).minimize(self.loss)


class Solver:
    def __init__(self, sess, net, dataset):
        self.sess, self.net = sess, net
        self.iterator = tf1.data.make_one_shot_iterator(dataset)
        self.sess.run(tf1.global_variables_initializer())

    def next_blobs(self):
        signal, broken = self.sess.run(self.iterator.get_next())
        return {self.net.signal: signal, self.net.broken: broken}

    def train_model(self, max_iters):
        smoothed = 0.7
        for _ in range(max_iters):
            blobs = self.next_blobs()
            loss, _ = self.sess.run([self.net.loss, self.net.train_op], blobs)
            smoothed = 0.9 * smoothed + 0.1 * float(loss)
        return smoothed


def main():
    dataset = vibration_dataset()
    net = Detector()
    with tf1.Session() as sess:
        loss = Solver(sess, net, dataset).train_model(int(os.environ.get("STEPS", "40")))
        print("smoothed loss", round(loss, 3), "operations in the graph", len(sess.graph.get_operations()))


if __name__ == "__main__":
    main()
