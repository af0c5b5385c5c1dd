import os
import tempfile

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.logging.set_verbosity(tf1.logging.ERROR)


def denoiser(x):
    with tf1.variable_scope("denoiser"):
        w1 = tf1.get_variable("w1", [16, 32], initializer=tf1.glorot_uniform_initializer(seed=1))
        b1 = tf1.get_variable("b1", [32], initializer=tf1.zeros_initializer())
        w2 = tf1.get_variable("w2", [32, 16], initializer=tf1.glorot_uniform_initializer(seed=2))
        return tf.matmul(tf.nn.leaky_relu(tf.matmul(x, w1) + b1), w2)


def batches(rng, count, noise):
    for _ in range(count):
        clean = np.sin(np.linspace(0, 6, 16) + rng.uniform(0, 6, size=(32, 1))).astype("float32")
        yield clean + noise * rng.normal(size=clean.shape).astype("float32"), clean


def pretrain(session, saver, path, train_op, feeds, rng, steps):
    session.run(tf1.global_variables_initializer())
    for noisy, clean in batches(rng, steps, noise=0.1):
        session.run(train_op, {feeds[0]: noisy, feeds[1]: clean})
    return saver.save(session, path)


def main():
    steps = int(os.environ.get("STEPS", "40"))
    rng = np.random.default_rng(0)
    noisy_image = tf1.placeholder(tf.float32, [None, 16])
    clean_image = tf1.placeholder(tf.float32, [None, 16])
    loss = tf.reduce_mean(tf.abs(denoiser(noisy_image) - clean_image))
    sgd = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
    saver = tf1.train.Saver()
    with tempfile.TemporaryDirectory() as folder:
        with tf1.Session() as session:
            checkpoint = pretrain(session, saver, folder + "/model", sgd, (noisy_image, clean_image), rng, steps)
        with tf1.Session() as session:
            saver.restore(session, checkpoint)
            pretrained = set(tf1.global_variables())
            train_op = tf1.train.AdamOptimizer(1e-3).minimize(loss)
            session.run(tf1.variables_initializer([v for v in tf1.global_variables() if v not in pretrained]))
            for noisy, clean in batches(rng, steps, noise=0.4):
                _, value = session.run([train_op, loss], {noisy_image: noisy, clean_image: clean})
            print("loss after fine-tuning", value)


if __name__ == "__main__":
    main()
