import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
STEPS = int(os.environ.get("STEPS", "40"))


def network(x):
    with tf.variable_scope("net"):
        w1 = tf.get_variable("w1", [10, 32], initializer=tf.truncated_normal_initializer(stddev=0.1))
        b1 = tf.get_variable("b1", [32], initializer=tf.zeros_initializer())
        w2 = tf.get_variable("w2", [32, 1], initializer=tf.truncated_normal_initializer(stddev=0.1))
        hidden = tf.nn.elu(tf.matmul(x, w1) + b1)
        return tf.squeeze(tf.matmul(hidden, w2), 1)


def cosine(step, base=0.05):
    return base * 0.5 * (1 + np.cos(np.pi * step / max(STEPS, 1)))


def main():
    tf.set_random_seed(0)
    x = tf.placeholder(tf.float32, [None, 10])
    y = tf.placeholder(tf.float32, [None])
    learning_rate = tf.Variable(0.05, trainable=False, name="learning_rate")
    loss = tf.reduce_mean(tf.squared_difference(network(x), y))
    train_op = tf.train.MomentumOptimizer(learning_rate, 0.9).minimize(loss)
    new_rate = tf.placeholder(tf.float32, [])
    set_rate = tf.assign(learning_rate, new_rate)
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(STEPS):
            sess.run(set_rate, {new_rate: cosine(step)})
            batch = rng.normal(size=(64, 10)).astype(np.float32)
            _, value = sess.run([train_op, loss], {x: batch, y: np.sin(batch.sum(1))})
    print("loss %.4f" % value)


if __name__ == "__main__":
    main()
